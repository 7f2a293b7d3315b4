// The direct path over the fake runtime: scratch, captures of the caller's, failures.
#include <doctest/doctest.h>

#include <string>

#include "direct_support.hpp"

namespace ai::test {
namespace {

TEST_CASE(
    "C4: a candidate that is not trusted is checked on scratch before a call is done with it") {
  for (const Flaw flaw : {Flaw::None, Flaw::LosesNaN}) {
    Fixture f;
    f.path.doubtful = flaw;
    const Layer layer(f.fake, 2, 3, 4);
    CHECK(f.path.run(layer.call, f.stream).ok());
    CHECK(layer.y() == 8.0F);
    CHECK(f.path.doubtful_runs > 0);
    const int runs = f.path.doubtful_runs;
    CHECK(f.path.run(layer.call, f.stream).ok());
    CHECK(f.path.doubtful_runs == runs + (flaw == Flaw::None ? 1 : 0));
    CHECK(f.settle() == "");
  }
}

TEST_CASE("each stream has scratch of its own, which grows and is used again") {
  Fixture f;
  f.path.scratch_only = true;
  const Layer small(f.fake, 2, 3, 4);
  const Layer large(f.fake, 200, 100, 2);
  const Stream other = f.fake.make_stream();
  CHECK(f.path.run(small.call, f.stream).ok());
  CHECK(small.y() == 8.0F);
  CHECK(f.path->info().scratch_blocks == 1);
  const std::size_t first = f.fake.pool_bytes();
  CHECK(f.path->info().scratch_bytes == first);
  CHECK(f.path.run(small.call, f.stream).ok());
  CHECK(f.fake.pool_bytes() == first);
  CHECK(f.path.run(large.call, f.stream).ok());
  CHECK(large.y(19'999) == 4.0F);
  CHECK(f.path->info().scratch_blocks == 1);
  CHECK(f.fake.pool_bytes() >= 80'000);
  CHECK(f.path.run(small.call, other).ok());
  CHECK(f.path->info().scratch_blocks == 2);
  CHECK(f.path->info().scratch_bytes == f.fake.pool_bytes());
  f.path->clear();
  CHECK(f.path->info().scratch_blocks == 0);
  CHECK(f.fake.pool_bytes() == 0);
  CHECK(f.path.run(small.call, f.stream).ok());
  CHECK(f.settle() == "");
}

TEST_CASE("B2: streams that come and go leave a bounded number of scratch blocks") {
  Fixture f;
  f.path.scratch_only = true;
  const Layer layer(f.fake, 2, 3, 4);
  for (int i = 0; i < 200; ++i) {
    const Stream stream = f.fake.make_stream();
    REQUIRE(f.path.run_first(layer.call, stream).ok());
    f.fake.destroy_stream(stream);
  }
  CHECK(f.path->info().scratch_blocks == StreamScratch::kMostBlocks);
  CHECK(f.settle() == "");
}

TEST_CASE("B9: scratch that is given back is freed behind the work that uses it") {
  Fixture f;
  f.path.scratch_only = true;
  const Layer layer(f.fake, 2, 3, 4);
  CHECK(f.path.run(layer.call, f.stream).ok());
  f.fake.forget_calls();
  f.fake.hold();
  f.path->clear();
  CHECK(f.fake.count("stream_wait_event") == 1);
  CHECK(f.fake.count("stream_synchronize") == 0);
  CHECK(f.fake.pool_bytes() > 0);
  f.fake.complete();
  CHECK(f.fake.pool_bytes() == 0);
}

TEST_CASE("not every use of scratch is marked by an event, and an unmarked one holds its block") {
  Fixture f;
  f.path.scratch_only = true;
  const Layer layer(f.fake, 2, 3, 4);
  constexpr auto kUses = static_cast<int>(StreamScratch::kMarkEvery + 3);
  for (int i = 0; i < kUses; ++i) REQUIRE(f.path.run_first(layer.call, f.stream).ok());
  CHECK(f.fake.count("event_record") == static_cast<int>(StreamScratch::kAlwaysMarked) + 1);
  const std::size_t held = f.fake.pool_bytes();
  f.path->clear();
  CHECK(f.path->info().scratch_blocks == 1);
  CHECK(f.fake.pool_bytes() == held);
  f.fake.forget_calls();
  CHECK(f.path.run_first(layer.call, f.stream).ok());
  CHECK(f.fake.count("free_async") == 1);  // behind the work of the same stream
  CHECK(f.fake.count("stream_wait_event") == 0);
  CHECK(f.fake.pool_bytes() == held);
  f.fake.destroy_stream(f.stream);
  // A stream that is gone with an unmarked use keeps its block for good; others find room.
  for (int i = 0; i < 200; ++i) {
    const Stream stream = f.fake.make_stream();
    REQUIRE(f.path.run_first(layer.call, stream).ok());
    f.fake.destroy_stream(stream);
  }
  CHECK(f.path->info().scratch_blocks == StreamScratch::kMostBlocks);
}

TEST_CASE("with many streams every use is marked, so that there is always a block to give back") {
  Fixture f;
  f.path.scratch_only = true;
  const Layer layer(f.fake, 2, 3, 4);
  for (std::size_t i = 0; i < 2 * StreamScratch::kMostBlocks; ++i) {
    const Stream stream = f.fake.make_stream();
    for (std::uint64_t use = 0; use <= StreamScratch::kAlwaysMarked; ++use) {
      REQUIRE(f.path.run_first(layer.call, stream).ok());
    }
    f.fake.destroy_stream(stream);
  }
  CHECK(f.path->info().scratch_blocks == StreamScratch::kMostBlocks);
  f.path->clear();
  CHECK(f.path->info().scratch_blocks <= StreamScratch::kFewBlocks + 1);
}

TEST_CASE("A2: too little memory for scratch is OutOfMemory, and the next call works") {
  Fixture f;
  f.path.scratch_only = true;
  const Layer layer(f.fake, 2, 3, 4);
  f.fake.free_bytes = 16;
  const Status status = f.path.run(layer.call, f.stream);
  CHECK(status.code() == StatusCode::OutOfMemory);
  CHECK(status.message().starts_with("scratch: "));
  CHECK(layer.y() == -1.0F);
  f.fake.free_bytes = 1 << 20;
  CHECK(f.path.run(layer.call, f.stream).ok());
  CHECK(layer.y() == 8.0F);
  CHECK(f.settle() == "");
}

TEST_CASE("A7: a direct call is recorded into the caller's capture, without scratch if it can be") {
  Fixture f;
  f.path.scratch_first = true;
  const Layer layer(f.fake, 2, 3, 4);
  f.fake.begin_capture(f.stream);
  CHECK(f.path.run(layer.call, f.stream).ok());
  CHECK(layer.y() == -1.0F);
  CHECK(f.fake.capturing(f.stream));
  CHECK(f.fake.pool_bytes() == 0);
  CHECK(f.fake.end_capture(f.stream));
  CHECK(f.path.run(layer.call, f.stream).ok());
  CHECK(layer.y() == 8.0F);
  CHECK(f.path->info().scratch_blocks == 1);
  CHECK(f.settle() == "");
}

TEST_CASE("A7: where a capture needs scratch the caller's graph keeps it") {
  Fixture f;
  f.path.scratch_only = true;
  const Layer layer(f.fake, 2, 3, 4);
  f.fake.begin_capture(f.stream);
  CHECK(f.path.run(layer.call, f.stream).ok());
  CHECK(f.path->info().scratch_blocks == 0);
  const std::size_t kept = f.fake.pool_bytes();
  CHECK(kept > 0);
  f.path->clear();
  CHECK(f.fake.pool_bytes() == kept);
  CHECK(f.fake.end_capture(f.stream));  // and the graph is destroyed
  CHECK(f.fake.pool_bytes() == kept);
  f.path->clear();  // as would any other call that is not under way on a callback
  CHECK(f.fake.pool_bytes() == 0);
  CHECK(f.settle() == "");
}

TEST_CASE("A7: a direct call on the legacy stream while a blocking stream is captured is refused") {
  Fixture f;
  const Layer layer(f.fake, 2, 3, 4);
  const Stream blocking = f.fake.make_stream(cudaStreamDefault);
  f.fake.begin_capture(blocking);
  CHECK(f.path.run(layer.call, nullptr).code() == StatusCode::CaptureActive);
  CHECK(f.fake.last_error == cudaSuccess);
  CHECK(f.fake.end_capture(blocking));
  CHECK(f.path.run(layer.call, nullptr).ok());
}

TEST_CASE("A4: a capture that is broken already is said to be") {
  Fixture f;
  const Layer layer(f.fake, 2, 3, 4);
  f.fake.begin_capture(f.stream);
  f.fake.invalidate(f.stream);
  CHECK(f.path.run(layer.call, f.stream).code() == StatusCode::CaptureInvalidated);
  CHECK(!f.fake.end_capture(f.stream));
}

TEST_CASE(
    "A6: whichever call of a direct call fails, its error is returned and the next one works") {
  for (const bool captured : {false, true}) {
    CAPTURE(captured);
    bool reached = true;
    for (int nth = 1; reached; ++nth) {
      CAPTURE(nth);
      Fixture f;
      f.path.scratch_only = true;
      const Layer layer(f.fake, 2, 3, 4);
      if (captured) f.fake.begin_capture(f.stream);
      f.fake.fail_any(nth, cudaErrorUnknown);
      const Status status = f.path.run(layer.call, f.stream);
      reached = !f.fake.failed().empty();
      if (!reached) {
        if (captured) (void)f.fake.end_capture(f.stream);
        CHECK(f.settle() == "");
        break;
      }
      CAPTURE(f.fake.failed());
      // Guards and frees have nobody to tell.
      if (!status.ok()) CHECK(status.message() != "");
      CHECK(f.fake.last_error == cudaSuccess);
      if (captured) (void)f.fake.end_capture(f.stream);
      if (f.fake.mode != cudaStreamCaptureModeGlobal) f.fake.mode = cudaStreamCaptureModeGlobal;
      f.fake.device = 0;
      const Status next = f.path.run(layer.call, f.stream);
      CHECK_MESSAGE(next.ok(), next.to_string());
      CHECK(layer.y() == 8.0F);
      (void)f.settle();  // what a failed release has kept is not asked for
    }
  }
}

}  // namespace
}  // namespace ai::test
