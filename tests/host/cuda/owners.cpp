#include "cuda/owners.hpp"

#include <doctest/doctest.h>

#include "recording_api.hpp"

using namespace ai::cuda;

TEST_CASE("a stream is non-blocking, an event without timing unless asked") {
  const Api api = test::recording_api();
  CHECK(make_stream(api).ok());
  CHECK(test::recording().stream_flags == cudaStreamNonBlocking);
  CHECK(make_event(api, false).ok());
  CHECK(test::recording().event_flags == cudaEventDisableTiming);
  CHECK(make_event(api, true).ok());
  CHECK(test::recording().event_flags == cudaEventDefault);
}

TEST_CASE("an owner releases its handle exactly once, also after moves") {
  const Api api = test::recording_api();
  {
    OwnedStream first = make_stream(api).value();
    OwnedStream second = std::move(first);
    CHECK_FALSE(first);
    OwnedStream third = make_stream(api).value();
    third = std::move(second);
    CHECK(test::recording().count("stream_destroy") == 1);  // what third held
    OwnedStream& self = third;
    third = std::move(self);
    CHECK(third);
  }
  CHECK(test::recording().count("stream_destroy") == 2);
  CHECK(test::recording().live.empty());
  CHECK(test::recording().double_frees == 0);
}

TEST_CASE("a released handle is no longer the owner's") {
  const Api api = test::recording_api();
  cudaGraph_t graph = nullptr;
  {
    OwnedGraph owner = make_graph(api).value();
    graph = owner.release();
    CHECK_FALSE(owner);
  }
  CHECK(test::recording().count("graph_destroy") == 0);
  { const OwnedGraph owner(api, graph); }
  CHECK(test::recording().live.empty());
}

TEST_CASE("a release that fails is not repeated and leaves no error behind (A7)") {
  const Api api = test::recording_api();
  for (const char* call : {"stream_destroy", "event_destroy", "graph_destroy"}) {
    test::recording().fail[call] = cudaErrorStreamCaptureUnsupported;
  }
  {
    OwnedStream stream = make_stream(api).value();
    OwnedEvent event = make_event(api, true).value();
    OwnedGraph graph = make_graph(api).value();
    stream.reset();
    stream.reset();
  }
  CHECK(test::recording().count("stream_destroy") == 1);
  CHECK(test::recording().last_error == cudaSuccess);
}

TEST_CASE("a library is unloaded when its owner goes") {
  const Api api = test::recording_api();
  const char image[] = "code";
  { CHECK(load_library(api, image).ok()); }
  CHECK(test::recording().image == image);
  CHECK(test::recording().count("library_unload") == 1);
  CHECK(test::recording().live.empty());
  test::recording().fail["library_load_data"] = cudaErrorInvalidKernelImage;
  CHECK(load_library(api, image).status().message().find("cudaLibraryLoadData") == 0);
}

TEST_CASE("a handle that cannot be made is a status that names the call") {
  const Api api = test::recording_api();
  for (const char* call : {"stream_create_with_flags", "event_create_with_flags", "graph_create"}) {
    test::recording().fail[call] = cudaErrorMemoryAllocation;
  }
  CHECK(make_stream(api).status().message().starts_with("cudaStreamCreateWithFlags failed"));
  CHECK(make_event(api, true).status().message().starts_with("cudaEventCreateWithFlags failed"));
  CHECK(make_graph(api).status().message().starts_with("cudaGraphCreate failed"));
  CHECK(make_graph(api).status().code() == ai::StatusCode::OutOfMemory);
  CHECK(test::recording().count("stream_destroy") == 0);
  CHECK(test::recording().mode == cudaStreamCaptureModeThreadLocal);
}
