#include "capture/recorder.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <stdexcept>

#include "cuda/error.hpp"
#include "fake_program.hpp"

namespace ai::test {
namespace {

using detail::RecordedStep;
using detail::Recording;
using Steps = std::vector<std::shared_ptr<TestStep>>;

/// Memory of the test's own, cut into named pieces.
struct Pieces {
  float memory[8] = {};
  [[nodiscard]] MemoryRange operator[](int i) const { return range_of(&memory[i], sizeof(float)); }
};

TestStep::Body kernels(FakeCuda& fake, int count = 1) {
  return [&fake, count](const AddressMap&, Stream stream) -> Status {
    for (int i = 0; i < count; ++i) {
      if (fake.work(stream, cudaGraphNodeTypeKernel, 1, {}) != cudaSuccess) {
        return {StatusCode::CudaError, "launch failed"};
      }
    }
    return {};
  };
}

std::shared_ptr<TestStep> step(std::string name, std::vector<MemoryRange> reads,
                               std::vector<MemoryRange> writes, TestStep::Body body) {
  auto made = std::make_shared<TestStep>(std::move(name), std::move(reads), std::move(writes),
                                         std::move(body));
  REQUIRE(made->prepare().ok());
  return made;
}

Result<Recording> record(const Steps& steps, int retries = 3, bool user = false,
                         detail::Describe describe = detail::Describe::Yes) {
  const cuda::Api& api = FakeCuda::api();
  std::vector<const Step*> pointers;
  std::vector<RecordedStep> recorded;
  const AddressMap addresses;
  for (const auto& s : steps) {
    pointers.push_back(s.get());
    recorded.push_back({s.get(), &addresses, user});
  }
  Result<cuda::OwnedStream> stream = cuda::make_stream(api);
  REQUIRE(stream.ok());
  return detail::record(api, stream->get(), recorded, dependencies(pointers), retries, describe);
}

std::string names(const Recording& recording) {
  std::string text;
  for (const Node& node : recording.nodes) {
    text += node.name + "(";
    for (const int d : node.depends_on) text += std::to_string(d);
    text += ") ";
  }
  return text;
}

TEST_CASE("A9: steps keep their order and each waits for exactly its dependencies") {
  FakeCuda fake;
  const Pieces p;
  {
    const Steps steps{
        step("gZ", {p[0]}, {p[1]}, kernels(fake)), step("gA", {p[1]}, {p[2]}, kernels(fake)),
        step("gB", {p[1]}, {p[3]}, kernels(fake)), step("gBias", {p[1]}, {p[4]}, kernels(fake)),
        step("update", {p[2], p[3]}, {p[5]}, kernels(fake))};
    const Result<Recording> recording = record(steps);
    REQUIRE_MESSAGE(recording.ok(), recording.status().to_string());
    CHECK(names(*recording) == "gZ() gA(0) gB(0) gBias(0) update(12) ");
    CHECK(fake.count("stream_begin_capture_to_graph") == 5);
  }
  CHECK(settled(fake) == "");
}

/// For each node how many it waits for, in the order of their making.
std::vector<std::size_t> waits(const Recording& recording) {
  const cuda::Api& api = FakeCuda::api();
  std::size_t nodes = 0;
  std::size_t edges = 0;
  REQUIRE(api.graph_get_nodes(recording.graph.get(), nullptr, &nodes) == cudaSuccess);
  REQUIRE(api.graph_get_edges(recording.graph.get(), nullptr, nullptr, nullptr, &edges) ==
          cudaSuccess);
  std::vector<cudaGraphNode_t> all(nodes);
  std::vector<cudaGraphNode_t> from(edges);
  std::vector<cudaGraphNode_t> to(edges);
  (void)api.graph_get_nodes(recording.graph.get(), all.data(), &nodes);
  (void)api.graph_get_edges(recording.graph.get(), from.data(), to.data(), nullptr, &edges);
  std::vector<std::size_t> counts;
  for (cudaGraphNode_t node : all) {
    counts.push_back(static_cast<std::size_t>(std::count(to.begin(), to.end(), node)));
  }
  return counts;
}

TEST_CASE("a recording that is not described is the same graph, from fewer captures") {
  FakeCuda fake;
  const Pieces p;
  {
    // A chain of three with an empty step in it, two branches, and a step that joins them.
    const Steps steps{
        step("a", {}, {p[0]}, kernels(fake)),
        step("empty", {p[0]}, {p[1]}, kernels(fake, 0)),
        step("b", {p[1]}, {p[2]}, kernels(fake, 2)),
        step("c", {p[2]}, {p[3]}, kernels(fake)),
        step("d", {p[2]}, {p[4]}, kernels(fake)),
        step("e", {p[3], p[4]}, {p[5]}, kernels(fake)),
        step("alone", {}, {p[6]}, kernels(fake)),
    };
    const Result<Recording> described = record(steps);
    REQUIRE(described.ok());
    fake.forget_calls();
    const Result<Recording> quick = record(steps, 3, false, detail::Describe::No);
    REQUIRE_MESSAGE(quick.ok(), quick.status().to_string());
    CHECK(waits(*quick) == std::vector<std::size_t>{0, 1, 1, 1, 1, 2, 0});
    CHECK(waits(*quick) == waits(*described));
    CHECK(quick->nodes.empty());
    CHECK(fake.count("stream_begin_capture_to_graph") == 4);
    fake.forget_calls();
    const Result<Recording> mine = record({steps[0], steps[2]}, 3, true, detail::Describe::No);
    REQUIRE(mine.ok());
    CHECK(mine->user_nodes == std::vector<std::size_t>{1, 2});
    CHECK(fake.count("stream_begin_capture_to_graph") == 2);  // each to itself
  }
  CHECK(settled(fake) == "");
}

TEST_CASE("A6: a step in the middle of a shared capture is named, and the capture is ended once") {
  FakeCuda fake;
  const Pieces p;
  const auto bad = [&](TestStep::Body body) {
    return record({step("first", {}, {p[0]}, kernels(fake)),
                   step("bad", {p[0]}, {p[1]}, std::move(body)),
                   step("last", {p[1]}, {p[2]}, kernels(fake))},
                  1, false, detail::Describe::No)
        .status();
  };
  const Status failed = bad(
      [](const AddressMap&, Stream) { return Status(StatusCode::Unsupported, "no such kernel"); });
  CHECK(failed.message() == "step 'bad': no such kernel");
  const Status broken = bad([&](const AddressMap& map, Stream stream) {
    fake.invalidate(stream);
    return kernels(fake)(map, stream);
  });
  CHECK(broken.code() == StatusCode::CaptureInvalidated);
  CHECK(broken.message().find("step 'bad'") != std::string::npos);
  CHECK(broken.message().find("2 times") != std::string::npos);
  CHECK(fake.count("stream_end_capture") == fake.count("stream_begin_capture_to_graph"));
  CHECK(settled(fake) == "");
}

TEST_CASE("a step that records nothing passes its dependencies on") {
  FakeCuda fake;
  const Pieces p;
  {
    const Steps steps{step("a", {}, {p[0]}, kernels(fake)), step("b", {}, {p[1]}, kernels(fake)),
                      step("empty", {p[0], p[1]}, {p[2]}, kernels(fake, 0)),
                      step("c", {p[2]}, {p[3]}, kernels(fake))};
    const Result<Recording> recording = record(steps);
    REQUIRE_MESSAGE(recording.ok(), recording.status().to_string());
    CHECK(names(*recording) == "a() b() c(01) ");
  }
  CHECK(settled(fake) == "");
}

TEST_CASE("the nodes of a step that made several are numbered and chained") {
  FakeCuda fake;
  const Pieces p;
  const TestStep::Body memset = [&fake](const AddressMap&, Stream stream) -> Status {
    (void)FakeCuda::api().memset_async(nullptr, 0, 0, stream);
    (void)fake.work(stream, cudaGraphNodeTypeKernel, 1, {});
    return {};
  };
  {
    const Result<Recording> recording = record({step("bias", {}, {p[0]}, memset)});
    REQUIRE(recording.ok());
    CHECK(names(*recording) == "bias#1() bias#2(0) ");
    CHECK(recording->nodes[0].kind == "memset");
    CHECK(recording->nodes[1].kind == "kernel");
  }
  CHECK(settled(fake) == "");
}

/// Records a good step and a bad one, and returns the error. Whatever the bad one did, the capture
/// is unwound once and a second one works.
Status failed(FakeCuda& fake, TestStep::Body body, int retries = 3, bool user = true) {
  const Pieces p;
  const Result<Recording> bad = record(
      {step("good", {}, {p[0]}, kernels(fake)), step("bad", {p[0]}, {p[1]}, std::move(body))},
      retries, user);
  CHECK(!bad.ok());
  CHECK(bad.status().message().find("step 'bad'") != std::string::npos);
  CHECK(settled(fake) == "");
  CHECK(record({step("next", {}, {p[0]}, kernels(fake))}).ok());
  CHECK(settled(fake) == "");
  return bad.status();
}

TEST_CASE("A6: an exception in a step ends the capture and becomes a Status") {
  FakeCuda fake;
  const Status status = failed(
      fake, [](const AddressMap&, Stream) -> Status { throw std::runtime_error("out of luck"); });
  CHECK(status.code() == StatusCode::Invalid);
  CHECK(status.message().find("out of luck") != std::string::npos);
  CHECK(fake.count("stream_end_capture") == fake.count("stream_begin_capture_to_graph"));
}

TEST_CASE("A6: a step that synchronises the capturing stream is named as the first cause") {
  FakeCuda fake;
  SUBCASE("and reports its error") {
    const Status status = failed(fake, [](const AddressMap&, Stream stream) {
      return cuda::to_status(FakeCuda::api(), FakeCuda::api().stream_synchronize(stream),
                             "cudaStreamSynchronize");
    });
    CHECK(status.code() == StatusCode::CaptureInvalidated);
    CHECK(status.message().find("cudaStreamSynchronize") != std::string::npos);
  }
  SUBCASE("and keeps it to itself") {
    const Status status = failed(fake, [](const AddressMap&, Stream stream) {
      (void)FakeCuda::api().stream_synchronize(stream);
      return Status();
    });
    CHECK(status.code() == StatusCode::CaptureInvalidated);
  }
  CHECK(fake.count("stream_end_capture") == fake.count("stream_begin_capture_to_graph"));
}

TEST_CASE("A6: a step's own error is returned as it is, without another attempt") {
  FakeCuda fake;
  int calls = 0;
  const Status status = failed(fake, [&calls](const AddressMap&, Stream) {
    ++calls;
    return Status(StatusCode::ShapeMismatch, "odd batch");
  });
  CHECK(status.code() == StatusCode::ShapeMismatch);
  CHECK(status.message() == "step 'bad': odd batch");
  CHECK(calls == 1);
}

TEST_CASE("a step that ends the capture itself is found out") {
  FakeCuda fake;
  const Status status = failed(fake, [](const AddressMap&, Stream stream) {
    cudaGraph_t graph = nullptr;
    (void)FakeCuda::api().stream_end_capture(stream, &graph);
    (void)FakeCuda::api().graph_destroy(graph);  // it is the step's own then
    return Status();
  });
  CHECK(status.code() == StatusCode::Invalid);
  CHECK(status.message().find("ended the capture") != std::string::npos);
}

TEST_CASE("a step that ends the capture and fails leaves nothing open") {
  FakeCuda fake;
  const Status status = failed(fake, [](const AddressMap&, Stream stream) {
    cudaGraph_t graph = nullptr;
    (void)FakeCuda::api().stream_end_capture(stream, &graph);
    (void)FakeCuda::api().graph_destroy(graph);
    return Status(StatusCode::CudaError, "and then it failed");
  });
  CHECK(status.code() == StatusCode::CudaError);
}

TEST_CASE("B7: a user step whose work goes elsewhere is an error, not a silent gap") {
  FakeCuda fake;
  const Stream other = fake.make_stream();
  const Status status =
      failed(fake, [&](const AddressMap& map, Stream) { return kernels(fake)(map, other); });
  CHECK(status.code() == StatusCode::Invalid);
  CHECK(status.message().find("put nothing on the stream") != std::string::npos);
}

TEST_CASE("a step that switches the device does not move the steps behind it") {
  FakeCuda fake;
  const Pieces p;
  int seen = -1;
  const Result<Recording> recording =
      record({step("switch", {}, {p[0]},
                   [&](const AddressMap& map, Stream stream) {
                     (void)FakeCuda::api().set_device(1);
                     return kernels(fake)(map, stream);
                   }),
              step("next", {p[0]}, {p[1]}, [&](const AddressMap& map, Stream stream) {
                seen = fake.device;
                return kernels(fake)(map, stream);
              })});
  CHECK(recording.ok());
  CHECK(seen == 0);
  CHECK(fake.device == 0);
}

TEST_CASE("A4: a capture that another thread invalidates is begun again, from the first step") {
  FakeCuda fake;
  const Pieces p;
  int left = 2;
  const auto first = step("first", {}, {p[0]}, kernels(fake));
  const auto broken =
      step("broken", {p[0]}, {p[1]}, [&](const AddressMap& map, Stream stream) -> Status {
        const Status status = kernels(fake)(map, stream);
        if (left-- > 0) fake.invalidate(stream);
        return status;
      });
  {
    const Result<Recording> recording = record({first, broken}, 2);
    REQUIRE_MESSAGE(recording.ok(), recording.status().to_string());
    CHECK(names(*recording) == "first() broken(0) ");
    CHECK(first->enqueued == 3);
    CHECK(fake.count("graph_create") == 3);
  }
  CHECK(settled(fake) == "");
}

TEST_CASE("A4: when the attempts are used up, the error is CaptureInvalidated") {
  FakeCuda fake;
  int calls = 0;
  const Status status = failed(
      fake,
      [&](const AddressMap&, Stream stream) {
        ++calls;
        fake.invalidate(stream);
        return Status();
      },
      2);
  CHECK(status.code() == StatusCode::CaptureInvalidated);
  CHECK(calls == 3);
  CHECK(status.message().find("3 times") != std::string::npos);
}

TEST_CASE("A4: an invalidation that only the end of the capture shows is retried as well") {
  FakeCuda fake;
  const Pieces p;
  fake.fail("stream_end_capture", 1, cudaErrorStreamCaptureInvalidated);
  {
    const Result<Recording> recording = record({step("a", {}, {p[0]}, kernels(fake))});
    CHECK_MESSAGE(recording.ok(), recording.status().to_string());
  }
  CHECK(settled(fake) == "");
}

}  // namespace
}  // namespace ai::test
