#include "cuda/cubin_recall.hpp"

#include <cstddef>
#include <map>
#include <new>
#include <string>
#include <utility>

namespace ai::cuda {
namespace {

std::vector<RecalledCubin> recall_all(NvrtcLoader load_nvrtc, const CubinStore& store,
                                      std::span<const CompileRequest> requests) {
  std::vector<RecalledCubin> outcomes;
  outcomes.reserve(requests.size());
  std::map<std::string, std::size_t> first;  // of the requests with this key
  std::vector<std::size_t> equal(requests.size());
  std::vector<std::size_t> missing;
  std::vector<std::string> keys;
  std::vector<CompileRequest> sources;
  for (std::size_t i = 0; i < requests.size(); ++i) {
    const std::string key = cubin_key(requests[i]);
    outcomes.push_back({Status(StatusCode::OutOfMemory, {}), false});
    equal[i] = first.emplace(key, i).first->second;
    if (equal[i] != i) continue;
    if (CubinStore::Found found = store.find(key); found.cubin) {
      outcomes[i].cubin = *std::move(found.cubin);
    } else {
      missing.push_back(i);
      keys.push_back(key);
      sources.push_back(requests[i]);
    }
  }
  if (!missing.empty()) {
    const Result<const NvrtcApi*> nvrtc = load_nvrtc();
    Result<std::vector<Result<Cubin>>> made =
        nvrtc ? compile_all(**nvrtc, sources)
              : std::vector<Result<Cubin>>(missing.size(), nvrtc.status());
    if (!made) made = std::vector<Result<Cubin>>(missing.size(), made.status());
    for (std::size_t i = 0; i < missing.size(); ++i) {
      // A store that cannot be written costs the next process time, and nothing else.
      if ((*made)[i]) (void)store.keep(keys[i], *(*made)[i]);
      outcomes[missing[i]] = {std::move((*made)[i]), nvrtc.ok()};
    }
  }
  for (std::size_t i = 0; i < requests.size(); ++i) {
    if (equal[i] == i) continue;
    outcomes[i].cubin = outcomes[equal[i]].cubin;
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
