// The direct path over the fake runtime: calls that come again and again become graphs.
#include "capture/direct_replay.hpp"

#include <doctest/doctest.h>

#include <string>

#include "direct_support.hpp"

namespace ai::test {
namespace {

using detail::DirectReplay;

constexpr int kGraphFrom = DirectPath::kGraphFrom;

std::string calls_of(const FakeCuda& fake) {
  std::string calls;
  for (const std::string& call : fake.calls()) calls += call + " ";
  return calls;
}

TEST_CASE("the eighth same call makes a graph, and from then on a call is one launch of it") {
  for (const bool has_scratch : {false, true}) {
    CAPTURE(has_scratch);
    Fixture f;
    f.path.scratch_only = has_scratch;
    const Layer layer(f.fake, 2, 3, 4);
    repeat(f, layer, kGraphFrom - 1, f.stream);
    CHECK(f.path->info().graphs == 0);
    CHECK(f.fake.count("graph_create") == 0);
    repeat(f, layer, 1, f.stream);
    CHECK(f.path->info().graphs == 1);
    CHECK(f.fake.count("graph_instantiate") == 1);
    CHECK(f.fake.count("graph_launch") == 1);
    f.fake.forget_calls();
    repeat(f, layer, 1, f.stream);
    CHECK(calls_of(f.fake) == "get_device stream_is_capturing graph_launch ");
    // What the operands hold is read anew each time.
    Layer::fill(layer.call.A, 3.0F);
    CHECK(f.path.run(layer.call, f.stream).ok());
    CHECK(layer.y() == 24.0F);
    CHECK(f.settle() == "");
  }
}

TEST_CASE("a graph is launched by the driver's own function where there is one") {
  FakeCuda::first_driver_symbols = {"cuStreamIsCapturing", "cuGraphLaunch"};
  {
    Fixture f;
    const Layer layer(f.fake, 2, 3, 4);
    repeat(f, layer, kGraphFrom, f.stream);
    f.fake.forget_calls();
    repeat(f, layer, 1, f.stream);
    CHECK(calls_of(f.fake) == "get_device cuStreamIsCapturing cuGraphLaunch ");
    f.fake.forget_calls();
    for (const std::uintptr_t handle : {0, 1, 2}) {
      repeat(f, layer, 1, reinterpret_cast<Stream>(handle));
    }
    CHECK(f.fake.count("cuGraphLaunch") == 3);
    // A thread without a context launches through the runtime, which gives it one.
    f.fake.fail("cuGraphLaunch", 1, cudaErrorDeviceUninitialized);
    f.fake.forget_calls();
    repeat(f, layer, 1, f.stream);
    CHECK(f.fake.count("graph_launch") == 1);
    CHECK(f.settle() == "");
  }
  FakeCuda::first_driver_symbols = {};
}

TEST_CASE("an error of a launch is returned, the caller's pending one stays, and the next works") {
  for (const bool by_driver : {false, true}) {
    CAPTURE(by_driver);
    if (by_driver) FakeCuda::first_driver_symbols = {"cuStreamIsCapturing", "cuGraphLaunch"};
    const char* const launch = by_driver ? "cuGraphLaunch" : "graph_launch";
    Fixture f;
    FakeCuda::first_driver_symbols = {};
    const Layer layer(f.fake, 2, 3, 4);
    repeat(f, layer, kGraphFrom, f.stream);
    if (by_driver) f.fake.last_error = cudaErrorInvalidDevice;
    f.fake.fail(launch, 1, cudaErrorUnknown);
    const Status status = f.path.run(layer.call, f.stream);
    CHECK(status.code() == StatusCode::CudaError);
    CHECK(f.fake.last_error == (by_driver ? cudaErrorInvalidDevice : cudaSuccess));
    f.fake.last_error = cudaSuccess;
    repeat(f, layer, 2, f.stream);
    CHECK(f.settle() == "");
  }
}

TEST_CASE("calls over other pointers, or with other attributes, do not share a graph") {
  Fixture f;
  const Layer first(f.fake, 2, 3, 4);
  const Layer second(f.fake, 2, 3, 4);
  Layer::fill(second.call.A, 3.0F);
  GemmForward scaled = first.call;
  scaled.attrs.leaky_slope = 0.5F;
  scaled.attrs.act = ActKind::LeakyReLU;
  for (int i = 0; i < kGraphFrom - 1; ++i) {
    CHECK(f.path.run(first.call, f.stream).ok());
    CHECK(f.path.run(second.call, f.stream).ok());
    CHECK(f.path.run(scaled, f.stream).ok());
  }
  CHECK(f.path->info().graphs == 0);
  CHECK(f.path.run(second.call, f.stream).ok());
  CHECK(f.path->info().graphs == 1);
  CHECK(f.path.run(first.call, f.stream).ok());
  CHECK(f.path->info().graphs == 2);
  GemmForward moved = second.call;
  moved.A = first.call.A;
  CHECK(f.path.run(moved, f.stream).ok());
  CHECK(second.y() == 8.0F);
  CHECK(f.path.run(second.call, f.stream).ok());
  CHECK(second.y() == 24.0F);
  CHECK(f.path->info().graphs == 2);
  CHECK(f.settle() == "");
}

TEST_CASE("A7: a call on a capturing stream is recorded, though it has a graph") {
  Fixture f;
  const Layer layer(f.fake, 2, 3, 4);
  f.fake.begin_capture(f.stream);
  for (int i = 0; i < 2 * kGraphFrom; ++i) CHECK(f.path.run(layer.call, f.stream).ok());
  CHECK(f.fake.end_capture(f.stream));
  CHECK(f.path->info().graphs == 0);  // recording a call is not making it
  CHECK(layer.y() == -1.0F);
  repeat(f, layer, kGraphFrom, f.stream);
  CHECK(f.path->info().graphs == 1);
  Layer::fill(layer.call.Y, -1.0F);
  f.fake.forget_calls();
  f.fake.begin_capture(f.stream);
  CHECK(f.path.run(layer.call, f.stream).ok());
  CHECK(layer.y() == -1.0F);
  CHECK(f.fake.count("graph_launch") == 0);
  CHECK(f.fake.end_capture(f.stream));
  f.fake.begin_capture(f.stream);
  f.fake.invalidate(f.stream);
  CHECK(f.path.run(layer.call, f.stream).code() == StatusCode::CaptureInvalidated);
  CHECK(!f.fake.end_capture(f.stream));
  repeat(f, layer, 1, f.stream);
  CHECK(f.settle() == "");
}

TEST_CASE("A7: captures that the caller has open elsewhere survive the making of a graph") {
  Fixture f;
  f.path.scratch_only = true;
  const Layer layer(f.fake, 2, 3, 4);
  const Stream open = f.fake.make_stream();
  const Stream blocking = f.fake.make_stream(cudaStreamDefault);
  f.fake.begin_capture(open);
  f.fake.begin_capture(blocking);
  repeat(f, layer, kGraphFrom + 1, f.stream);
  bool is_relaxed = false;
  for (const std::string& call : f.fake.calls()) {
    if (call == "thread_exchange_stream_capture_mode") is_relaxed = !is_relaxed;
    if (call == "stream_begin_capture_to_graph" || call == "graph_instantiate") CHECK(is_relaxed);
  }
  CHECK(f.path->info().graphs == 1);
  CHECK(f.path.run(layer.call, nullptr).code() == StatusCode::CaptureActive);
  f.path->clear();
  CHECK(f.fake.last_error == cudaSuccess);
  CHECK(f.fake.end_capture(open));
  CHECK(f.fake.end_capture(blocking));
  CHECK(f.path.run(layer.call, nullptr).ok());
  CHECK(f.settle() == "");
}

TEST_CASE("a stream of another device is named, whether the call has a graph or is about to") {
  Fixture f;
  const Layer layer(f.fake, 2, 3, 4);
  const Stream foreign = f.fake.make_stream_on(1);
  repeat(f, layer, kGraphFrom - 1, f.stream);
  for (const std::size_t graphs : {0U, 1U}) {
    const Status status = f.path.run(layer.call, foreign);
    CHECK(status.code() == StatusCode::DeviceMismatch);
    CHECK(status.message().find("device 1, expected device 0") != std::string::npos);
    CHECK(f.path->info().graphs == graphs);  // what is refused is no use
    repeat(f, layer, 1, f.stream);
    CHECK(f.path->info().graphs == 1);
  }
  f.fake.forget_calls();
  const Stream other = f.fake.make_stream();
  for (int i = 0; i < 3; ++i) repeat(f, layer, 1, other);
  CHECK(f.fake.count("stream_get_device") == 1);  // asked of each other stream
  // The caller's device is made current again.
  f.fake.device = 1;
  repeat(f, layer, 1, other);
  CHECK(f.fake.device == 1);
  f.fake.device = 0;
  CHECK(f.settle() == "");
}

TEST_CASE("whichever call fails as a graph is made, the call is done without, now and later") {
  bool reached = true;
  int given_up = 0;
  for (int nth = 1; reached; ++nth) {
    CAPTURE(nth);
    Fixture f;
    f.path.scratch_only = true;
    const Layer layer(f.fake, 2, 3, 4);
    repeat(f, layer, kGraphFrom - 1, f.stream);
    f.fake.forget_calls();
    f.fake.fail_any(nth, cudaErrorUnknown);
    Layer::fill(layer.call.Y, -1.0F);
    const Status status = f.path.run(layer.call, f.stream);
    reached = !f.fake.failed().empty();
    CAPTURE(f.fake.failed());
    f.fake.fail_no_more();
    // Of a launch, or before one is thought of: those are the call's own errors.
    const bool is_own =
        nth <= 3 || f.fake.failed() == "stream_get_device" || f.fake.failed() == "graph_launch";
    CHECK(status.ok() == (!reached || !is_own));
    if (status.ok()) CHECK(layer.y() == 8.0F);
    CHECK(f.fake.last_error == cudaSuccess);
    const bool has_graph = f.path->info().graphs > 0;
    f.fake.mode = cudaStreamCaptureModeGlobal;  // where a guard could not put it back
    f.fake.device = 0;
    f.fake.forget_calls();
    repeat(f, layer, 3, f.stream);
    CHECK(f.path->info().graphs == (has_graph || nth <= 3 ? 1 : 0));
    if (nth > 3) CHECK(f.fake.count("graph_create") == 0);  // not tried again
    given_up += !has_graph && nth > 3 ? 1 : 0;
    (void)f.settle();  // what a failed release has kept is not asked for
    CHECK(DirectReplay::count() == 0);
  }
  CHECK(given_up > 5);  // calls without which there is no graph
}

TEST_CASE("a graph is no more tried for a call after each of its parts has failed once") {
  for (const char* part :
       {"stream_create_with_flags", "stream_begin_capture_to_graph", "stream_end_capture",
        "graph_instantiate", "graph_upload", "malloc_from_pool_async", "graph_get_nodes"}) {
    CAPTURE(part);
    Fixture f;
    f.path.scratch_only = true;
    const Layer layer(f.fake, 2, 3, 4);
    repeat(f, layer, kGraphFrom - 1, f.stream);
    f.fake.fail(part, 1, cudaErrorMemoryAllocation);
    repeat(f, layer, 3, f.stream);
    CHECK(f.path->info().graphs == 0);
    CHECK(f.fake.count(part) > 0);
    CHECK(f.settle() == "");
  }
}

TEST_CASE("a recording that another thread breaks is begun again") {
  Fixture f;
  const Layer layer(f.fake, 2, 3, 4);
  repeat(f, layer, kGraphFrom - 1, f.stream);
  f.fake.fail("stream_end_capture", 1, cudaErrorStreamCaptureInvalidated);
  repeat(f, layer, 1, f.stream);
  CHECK(f.path->info().graphs == 1);
  CHECK(f.fake.count("stream_end_capture") == 2);
  CHECK(f.settle() == "");
}

TEST_CASE("a call with much scratch never becomes a graph") {
  Fixture f;
  f.path.scratch_only = true;
  const Layer large(f.fake, 513, 512, 1);  // 1 MiB and a row
  const Layer small(f.fake, 512, 512, 1);
  for (int i = 0; i < kGraphFrom; ++i) {
    REQUIRE(f.path.run(large.call, f.stream).ok());
    REQUIRE(f.path.run(small.call, f.stream).ok());
  }
  CHECK(f.path->info().graphs == 1);
  CHECK(large.y(513 * 512 - 1) == 2.0F);
  CHECK(f.settle() == "");
}

}  // namespace
}  // namespace ai::test
