#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "ai/step.hpp"
#include "cuda/api.hpp"

namespace ai::test {

/// A CUDA runtime without a GPU. Device memory is host memory, work runs when it is enqueued (or,
/// captured, when its graph is launched), and every call is recorded and can be made to fail.
/// One at a time: making one makes it the runtime behind api().
class FakeCuda {
 public:
  FakeCuda();
  ~FakeCuda();
  FakeCuda(const FakeCuda&) = delete;
  FakeCuda& operator=(const FakeCuda&) = delete;

  [[nodiscard]] static const cuda::Api& api();

  // What has been called: names of Api's members, in order.
  [[nodiscard]] const std::vector<std::string>& calls() const { return calls_; }
  [[nodiscard]] int count(const std::string& function) const;
  void forget_calls() { calls_.clear(); }

  // Scripts. `nth` counts from 1 and from now.
  void fail(const std::string& function, int nth, cudaError_t code);
  void fail_any(int nth, cudaError_t code);
  /// Nothing fails any more.
  void fail_no_more() { failures_.clear(); }
  /// What another thread does just before a function is called.
  std::function<void(const std::string& function)> before_call;
  /// What fail_any's failing call was; empty before it was reached.
  [[nodiscard]] const std::string& failed() const { return failed_; }

  // State.
  cudaError_t last_error = cudaSuccess;
  int device = 0;
  int device_count = 2;
  /// What get_driver_entry_point finds: cuStreamIsCapturing, cuStreamGetCtx, cuCtxGetDevice,
  /// cuGraphLaunch, cuGraphKernelNodeGetParams, cuGraphKernelNodeSetParams, or nothing.
  std::set<std::string> driver_symbols = first_driver_symbols;
  static inline std::set<std::string> first_driver_symbols;
  /// What the kernels that are launched from now on are instances of.
  std::uintptr_t kernel_function = 1;
  bool cooperative_kernels = false;  ///< work() makes kernels cooperative
  std::size_t free_bytes = std::size_t{1} << 30;
  int refusals = 0;  ///< of the next updates of a graph
  /// What a replay takes beside its work, by the nodes of its graph and their edges.
  using Edges = std::vector<std::pair<std::size_t, std::size_t>>;
  std::function<double(std::size_t nodes, const Edges& edges)> graph_takes_us;
  cudaStreamCaptureMode mode = cudaStreamCaptureModeGlobal;
  /// Everything that was made and not destroyed, and every rule that was broken; empty if all is
  /// well.
  [[nodiscard]] std::vector<std::string> complaints() const;
  /// Bytes of device memory that the library holds.
  [[nodiscard]] std::size_t pool_bytes() const;
  /// The device's clock. Work advances it by what it is said to take, each launch by 1 us.
  [[nodiscard]] double seconds() const { return microseconds_ * 1e-6; }

  // The caller's side.
  [[nodiscard]] void* operand(std::size_t bytes, int on_device = 0,
                              cudaMemoryType type = cudaMemoryTypeDevice);
  [[nodiscard]] Stream make_stream(unsigned flags = cudaStreamNonBlocking);
  /// Whichever device is current.
  [[nodiscard]] Stream make_stream_on(int on_device);
  void destroy_stream(Stream stream);
  void begin_capture(Stream stream);
  /// Whether the capture was intact.
  bool end_capture(Stream stream);
  /// What another thread's forbidden call does.
  void invalidate(Stream stream);
  [[nodiscard]] bool capturing(Stream stream) const;

  /// Work of a step: runs now, or becomes a node.
  cudaError_t work(Stream stream, cudaGraphNodeType type, double takes_us,
                   std::function<void()> what);
  /// Launches stay in flight until complete().
  void hold() { holding_ = true; }
  void complete();

 private:
  friend struct FakeRuntime;
  friend struct FakeGraphs;
  friend struct FakeDriver;
  struct Node {
    cudaGraphNodeType type;
    double takes_us;
    std::function<void()> what;
    std::uintptr_t function;
    bool cooperative = false;
  };
  struct UserObject {
    void* data;
    cudaHostFn_t destroy;
    unsigned references;
  };
  struct Graph {
    std::vector<std::shared_ptr<Node>> nodes;
    std::vector<std::pair<Node*, Node*>> edges;
    std::vector<UserObject*> retained;
  };
  struct Exec {
    Graph* source = nullptr;                    // it knows the nodes of this graph alone
    std::vector<std::shared_ptr<Node>> nodes;   // the source's
    std::vector<std::shared_ptr<Node>> bodies;  // what they do since the last update
    std::vector<std::pair<std::size_t, std::size_t>> edges;
    std::vector<UserObject*> retained;
    std::set<Node*> off;
    bool in_flight = false;
  };
  struct StreamState {
    unsigned flags = 0;
    unsigned long long id = 0;  // never that of another stream
    int device = 0;
    cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
    Graph* graph = nullptr;
    std::vector<Node*> leaves;
    // What cudaStreamGetCaptureInfo pointed at; overwritten when it is no longer valid.
    std::vector<cudaGraphNode_t> info_nodes;
    std::vector<cudaGraphEdgeData> info_edges;
  };
  struct Event {
    double at_us = 0;
  };
  struct Block {
    std::size_t bytes;
    int device;
    cudaMemoryType type;
    bool pooled;
  };
  struct Failure {
    std::string function;  // empty: any
    int countdown;
    cudaError_t code;
  };

  cudaError_t enter(const char* function, bool has_slot = true);
  cudaError_t error(cudaError_t code);
  StreamState& state(cudaStream_t stream);
  StreamState* add_stream(unsigned flags);
  void drop(UserObject* object, unsigned references);
  void drop_all(std::vector<UserObject*>& objects);
  void* allocate(std::size_t bytes, int on_device, cudaMemoryType type, bool pooled);
  void release(void* data);
  static std::vector<std::pair<std::size_t, std::size_t>> edges_of(const Graph& graph);
  static std::vector<std::shared_ptr<Node>> copies_of(const Graph& graph);
  [[nodiscard]] bool has_node(const void* node) const;
  void run(const Node& node);
  cudaError_t replay(cudaGraphExec_t exec, cudaStream_t stream);
  void call_back(const std::function<void()>& function);

  static inline FakeCuda* current_ = nullptr;

  std::vector<std::string> calls_;
  std::vector<std::string> broken_rules_;
  std::vector<Failure> failures_;
  std::string failed_;
  std::map<StreamState*, std::unique_ptr<StreamState>> streams_;
  std::set<StreamState*> callers_streams_;
  std::map<Graph*, std::unique_ptr<Graph>> graphs_;
  std::map<Exec*, std::unique_ptr<Exec>> execs_;
  std::map<Event*, std::unique_ptr<Event>> events_;
  std::map<UserObject*, std::unique_ptr<UserObject>> objects_;
  std::set<void*> pools_;
  std::set<void*> libraries_;
  std::map<void*, Block> blocks_;
  std::vector<std::vector<UserObject*>> in_flight_;  // of execs destroyed while in flight
  std::vector<std::function<void()>> held_;          // host functions behind held launches
  StreamState default_stream_;
  unsigned long long next_stream_id_ = 1000;  // below: the default streams of the devices
  double microseconds_ = 0;
  bool holding_ = false;
  bool in_callback_ = false;
};

}  // namespace ai::test
