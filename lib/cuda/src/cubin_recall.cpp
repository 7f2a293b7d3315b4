#include "cuda/cubin_recall.hpp"

#include <cstddef>
#include <map>
#include <new>
#include <string>
#include <utility>

namespace ai::cuda {
namespace {

/// Compiles the requests `which`; what cannot be compiled keeps the cubin that it has.
void compile_some(const NvrtcApi& nvrtc, const CubinStore& store,
                  std::span<const CompileRequest> requests, std::span<const std::string> keys,
                  std::span<const std::size_t> which, std::vector<RecalledCubin>& outcomes) {
  std::vector<CompileRequest> sources;
  for (const std::size_t i : which) sources.push_back(requests[i]);
  Result<std::vector<Result<Cubin>>> made = compile_all(nvrtc, sources);
  if (!made) made = std::vector<Result<Cubin>>(which.size(), made.status());
  for (std::size_t j = 0; j < which.size(); ++j) {
    RecalledCubin& outcome = outcomes[which[j]];
    outcome.compiled = true;
    if (!(*made)[j] && outcome.cubin) continue;
    outcome.cubin = std::move((*made)[j]);
    if (!outcome.cubin) continue;
    // A store that cannot be written costs the next process time, and nothing else.
    const Status kept = store.keep(keys[which[j]], *outcome.cubin);
    if (outcome.problem.ok()) outcome.problem = kept;
  }
}

std::vector<RecalledCubin> recall_all(NvrtcLoader load_nvrtc, const CubinStore& store,
                                      std::span<const CompileRequest> requests) {
  std::vector<RecalledCubin> outcomes;
  outcomes.reserve(requests.size());
  std::vector<std::string> keys;
  std::map<std::string, std::size_t> first;  // of the requests with this key
  std::vector<std::size_t> wanted;
  for (std::size_t i = 0; i < requests.size(); ++i) {
    keys.push_back(cubin_key(requests[i]));
    outcomes.push_back({Status(StatusCode::OutOfMemory, {})});
    if (!first.emplace(keys[i], i).second) continue;
    CubinStore::Found found = store.find(keys[i]);
    outcomes[i].problem = std::move(found.problem);
    if (found.cubin) {
      outcomes[i].cubin = *std::move(found.cubin);
    } else {
      wanted.push_back(i);
    }
  }
  if (!wanted.empty()) {
    const Result<const NvrtcApi*> nvrtc = load_nvrtc();
    if (nvrtc) {
      const Result<int> version = nvrtc_version(**nvrtc);
      for (const auto& [key, i] : first) {
        const Result<Cubin>& cubin = outcomes[i].cubin;
        if (cubin && version && cubin->nvrtc_version != *version) wanted.push_back(i);
      }
      compile_some(**nvrtc, store, requests, keys, wanted, outcomes);
    } else {
      for (const std::size_t i : wanted) outcomes[i].cubin = nvrtc.status();
    }
  }
  for (std::size_t i = 0; i < requests.size(); ++i) {
    const std::size_t equal = first.at(keys[i]);
    if (equal == i) continue;
    outcomes[i].cubin = outcomes[equal].cubin;
    if (outcomes[i].cubin) outcomes[i].cubin->compile_s = 0;
  }
  return outcomes;
}

}  // namespace

Result<std::vector<RecalledCubin>> recall_or_compile(
    NvrtcLoader load_nvrtc, const CubinStore& store,
    std::span<const CompileRequest> requests) noexcept try {
  return recall_all(load_nvrtc, store, requests);
} catch (const std::bad_alloc&) {
  return Status(StatusCode::OutOfMemory, {});
}

}  // namespace ai::cuda
