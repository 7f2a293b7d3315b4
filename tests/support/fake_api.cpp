#include "support/fake_api.hpp"

#include <algorithm>
#include <cstdlib>
#include <cstring>

namespace ai::test {
namespace {

constexpr std::size_t kAlignment = 256;

}  // namespace

FakeCuda::FakeCuda() {
  current_ = this;
}

FakeCuda::~FakeCuda() {
  while (!blocks_.empty()) release(blocks_.begin()->first);
  current_ = nullptr;
}

int FakeCuda::count(const std::string& function) const {
  return static_cast<int>(std::count(calls_.begin(), calls_.end(), function));
}

void FakeCuda::fail(const std::string& function, int nth, cudaError_t code) {
  failures_.push_back({function, nth, code});
}

void FakeCuda::fail_any(int nth, cudaError_t code) {
  failures_.push_back({"", nth, code});
}

cudaError_t FakeCuda::enter(const char* function, bool has_slot) {
  if (before_call) before_call(function);
  calls_.emplace_back(function);
  if (in_callback_) broken_rules_.push_back(std::string(function) + " inside a callback of CUDA's");
  for (Failure& failure : failures_) {
    if (!failure.function.empty() && failure.function != function) continue;
    if (--failure.countdown == 0) {
      failed_ = function;
      return has_slot ? error(failure.code) : failure.code;
    }
  }
  return cudaSuccess;
}

cudaError_t FakeCuda::error(cudaError_t code) {
  if (code != cudaSuccess) last_error = code;
  return code;
}

FakeCuda::StreamState& FakeCuda::state(cudaStream_t stream) {
  auto* const handle = reinterpret_cast<StreamState*>(stream);
  if (reinterpret_cast<std::uintptr_t>(stream) <= 2) return default_stream_;
  if (!streams_.contains(handle)) {
    broken_rules_.emplace_back("a stream that does not exist was used");
    return default_stream_;
  }
  return *handle;
}

std::vector<std::string> FakeCuda::complaints() const {
  std::vector<std::string> all = broken_rules_;
  const auto left = [&](const char* what, std::size_t count) {
    if (count > 0) all.push_back(std::to_string(count) + " " + what + " left");
  };
  left("streams", streams_.size() - callers_streams_.size());
  left("graphs", graphs_.size());
  left("executables", execs_.size());
  left("events", events_.size());
  left("user objects", objects_.size());
  left("pools", pools_.size());
  left("libraries", libraries_.size());
  left("bytes of pool memory", pool_bytes());
  for (const auto& [stream, owner] : streams_) {
    if (stream->status != cudaStreamCaptureStatusNone && !callers_streams_.contains(stream)) {
      all.emplace_back("a stream is still capturing");
    }
  }
  if (last_error != cudaSuccess) all.emplace_back("the last error is set");
  if (mode != cudaStreamCaptureModeGlobal) all.emplace_back("the capture mode was not restored");
  return all;
}

std::size_t FakeCuda::pool_bytes() const {
  std::size_t bytes = 0;
  for (const auto& [data, block] : blocks_) bytes += block.pooled ? block.bytes : 0;
  return bytes;
}

void* FakeCuda::allocate(std::size_t bytes, int on_device, cudaMemoryType type, bool pooled) {
  const std::size_t rounded = (bytes + kAlignment - 1) / kAlignment * kAlignment;
  void* const data = std::aligned_alloc(kAlignment, std::max(rounded, kAlignment));
  std::memset(data, 0xCD, std::max(rounded, kAlignment));
  blocks_[data] = {bytes, on_device, type, pooled};
  return data;
}

void FakeCuda::release(void* data) {
  if (blocks_.erase(data) == 0) {
    broken_rules_.emplace_back("memory was freed twice");
    return;
  }
  std::free(data);
}

void* FakeCuda::operand(std::size_t bytes, int on_device, cudaMemoryType type) {
  return allocate(bytes, on_device, type, false);
}

FakeCuda::StreamState* FakeCuda::add_stream(unsigned flags) {
  auto made = std::make_unique<StreamState>();
  made->flags = flags;
  made->id = next_stream_id_++;
  made->device = device;
  StreamState* const handle = made.get();
  streams_[handle] = std::move(made);
  return handle;
}

Stream FakeCuda::make_stream(unsigned flags) {
  StreamState* const handle = add_stream(flags);
  callers_streams_.insert(handle);
  return reinterpret_cast<Stream>(handle);
}

Stream FakeCuda::make_stream_on(int on_device) {
  const Stream stream = make_stream();
  state(stream).device = on_device;
  return stream;
}

void FakeCuda::destroy_stream(Stream stream) {
  auto* const handle = reinterpret_cast<StreamState*>(stream);
  callers_streams_.erase(handle);
  streams_.erase(handle);
}

void FakeCuda::begin_capture(Stream stream) {
  auto graph = std::make_unique<Graph>();
  StreamState& s = state(stream);
  s.status = cudaStreamCaptureStatusActive;
  s.graph = graph.get();
  graphs_[s.graph] = std::move(graph);
}

bool FakeCuda::end_capture(Stream stream) {
  StreamState& s = state(stream);
  const bool intact = s.status == cudaStreamCaptureStatusActive;
  drop_all(s.graph->retained);
  graphs_.erase(s.graph);
  s.graph = nullptr;
  s.status = cudaStreamCaptureStatusNone;
  s.leaves.clear();
  return intact;
}

void FakeCuda::invalidate(Stream stream) {
  StreamState& s = state(stream);
  if (s.status == cudaStreamCaptureStatusActive) s.status = cudaStreamCaptureStatusInvalidated;
}

bool FakeCuda::capturing(Stream stream) const {
  return reinterpret_cast<const StreamState*>(stream)->status != cudaStreamCaptureStatusNone;
}

cudaError_t FakeCuda::work(Stream stream, cudaGraphNodeType type, double takes_us,
                           std::function<void()> what) {
  StreamState& s = state(stream);
  if (s.status == cudaStreamCaptureStatusInvalidated) {
    return error(cudaErrorStreamCaptureInvalidated);
  }
  auto node = std::make_shared<Node>(Node{type, takes_us, std::move(what), kernel_function,
                                          type == cudaGraphNodeTypeKernel && cooperative_kernels});
  if (s.status == cudaStreamCaptureStatusNone) {
    run(*node);
    return cudaSuccess;
  }
  for (Node* leaf : s.leaves) s.graph->edges.emplace_back(leaf, node.get());
  s.leaves = {node.get()};
  s.graph->nodes.push_back(std::move(node));
  return cudaSuccess;
}

std::vector<std::shared_ptr<FakeCuda::Node>> FakeCuda::copies_of(const Graph& graph) {
  std::vector<std::shared_ptr<Node>> copies;
  for (const auto& node : graph.nodes) copies.push_back(std::make_shared<Node>(*node));
  return copies;
}

bool FakeCuda::has_node(const void* node) const {
  for (const auto& [graph, owner] : graphs_) {
    for (const auto& one : graph->nodes) {
      if (one.get() == node) return true;
    }
  }
  return false;
}

void FakeCuda::call_back(const std::function<void()>& function) {
  in_callback_ = true;
  function();
  in_callback_ = false;
}

void FakeCuda::run(const Node& node) {
  if (node.what) node.what();
  microseconds_ += node.takes_us;
}

cudaError_t FakeCuda::replay(cudaGraphExec_t exec, cudaStream_t stream) {
  if (state(stream).status != cudaStreamCaptureStatusNone) {
    invalidate(stream);
    return error(cudaErrorStreamCaptureUnsupported);
  }
  auto* const handle = reinterpret_cast<Exec*>(exec);
  if (handle == nullptr) return error(cudaErrorInvalidValue);
  handle->in_flight = holding_;
  microseconds_ += 1;
  if (graph_takes_us) microseconds_ += graph_takes_us(handle->nodes.size(), handle->edges);
  for (std::size_t i = 0; i < handle->nodes.size(); ++i) {
    if (!handle->off.contains(handle->nodes[i].get())) run(*handle->bodies[i]);
  }
  return cudaSuccess;
}

std::vector<std::pair<std::size_t, std::size_t>> FakeCuda::edges_of(const Graph& graph) {
  const auto place = [&](const Node* node) {
    std::size_t i = 0;
    while (graph.nodes[i].get() != node) ++i;
    return i;
  };
  std::vector<std::pair<std::size_t, std::size_t>> edges;
  for (const auto& [from, to] : graph.edges) edges.emplace_back(place(from), place(to));
  std::sort(edges.begin(), edges.end());
  return edges;
}

void FakeCuda::drop(UserObject* object, unsigned references) {
  object->references -= references;
  if (object->references > 0) return;
  const std::unique_ptr<UserObject> dying = std::move(objects_[object]);
  objects_.erase(object);
  call_back([&] { dying->destroy(dying->data); });
}

void FakeCuda::drop_all(std::vector<UserObject*>& objects) {
  for (UserObject* object : objects) drop(object, 1);
  objects.clear();
}

void FakeCuda::complete() {
  holding_ = false;
  for (auto& [handle, exec] : execs_) exec->in_flight = false;
  for (std::vector<UserObject*>& objects : in_flight_) drop_all(objects);
  in_flight_.clear();
  for (const auto& function : held_) call_back(function);
  held_.clear();
}

}  // namespace ai::test
