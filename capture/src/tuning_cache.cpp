#include "capture/tuning_cache.hpp"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <thread>
#include <utility>

#include "ai/status.hpp"
#include "capture/tuning_file.hpp"
#include "capture/tuning_text.hpp"
#include "core/text.hpp"

namespace ai::detail {
namespace {

constexpr std::size_t kMostBytes = std::size_t{256} << 20;
constexpr std::chrono::milliseconds kPatience{2000};
constexpr std::chrono::milliseconds kTurn{3};  // others try each millisecond

void overlay(TuningEntries& entries, const TuningEntries& newer) {
  for (const auto& [machine, choices] : newer) {
    auto& here = entries[machine];
    for (const auto& [problem, choice] : choices) here.insert_or_assign(problem, choice);
  }
}

TuningText read_entries(const FileContents& file) {
  if (file.absent()) return {};
  if (!file.problem.empty()) {
    return {{}, StatusCode::Unsupported, file.problem, /*replaceable=*/false};
  }
  return parse_tuning(file.text);
}

// Links to folders are resolved, so that ".." means what it means to the system. The file itself
// may be a link and be turned elsewhere, so that it is left as it is.
std::string absolute_path(const std::string& path) {
  std::error_code error;
  const auto absolute = std::filesystem::absolute(path, error);
  if (error) return path;
  const auto folder = std::filesystem::weakly_canonical(absolute.parent_path(), error);
  if (error) return absolute.lexically_normal().string();
  return (folder / absolute.filename()).lexically_normal().string();
}

}  // namespace

std::shared_ptr<TuningCache> TuningCache::at(const std::string& path) {
  if (path.empty()) return nullptr;
  struct Caches {
    std::mutex mutex;
    std::map<std::string, std::shared_ptr<TuningCache>> by_path;
  };
  static auto* const caches = new Caches;  // outlives whatever captures at exit
  auto key = absolute_path(path);
  const std::lock_guard lock(caches->mutex);
  auto& cache = caches->by_path[key];
  if (!cache) cache = std::make_shared<TuningCache>(std::move(key));
  return cache;
}

bool TuningCache::up_to_date() const noexcept {
  return read_ && stamp_of(path_) == *read_;
}

void TuningCache::adopt(const FileContents& file) {
  if (!read_ || *read_ != file.stamp) is_said_ = false;
  auto read = read_entries(file);
  overlay(read.entries, unwritten_);
  machines_ = std::move(read.entries);
  replaceable_ = read.replaceable;
  read_ = file.stamp;
  problem_ = read.problem.empty()
                 ? Status()
                 : Status(read.code, text("the tuning file ", path_, " ", read.problem,
                                          replaceable_ ? "" : "; nothing is stored in it"));
}

Status TuningCache::unsaid(bool is_heard) {
  if (problem_.ok() || is_said_) return {};
  is_said_ = is_heard;
  return problem_;
}

Status TuningCache::refresh(bool is_heard) {
  const std::lock_guard lock(mutex_);
  if (!up_to_date()) adopt(read_file(path_, kMostBytes));
  return unsaid(is_heard);
}

std::optional<StoredChoice> TuningCache::find(const TuningMachine& machine,
                                              std::string_view problem) const {
  const std::lock_guard lock(mutex_);
  const auto choices = machines_.find(machine);
  if (choices == machines_.end()) return std::nullopt;
  const auto choice = choices->second.find(problem);
  if (choice == choices->second.end()) return std::nullopt;
  return choice->second;
}

Status TuningCache::store(const TuningMachine& machine, const Choices& choices, bool is_heard) {
  if (!choices.empty()) {
    const std::lock_guard lock(mutex_);
    const TuningEntries added{{machine, choices}};
    overlay(unwritten_, added);
    overlay(machines_, added);
  }
  const auto deadline = std::chrono::steady_clock::now() + kPatience;
  const std::unique_lock storing(storing_, deadline);
  if (!storing) {
    return {StatusCode::Unsupported,
            text("the tuning file ", path_, " was not written: another thread has been at it for ",
                 static_cast<std::int64_t>(kPatience.count()), " ms")};
  }
  Status said;
  {
    const std::lock_guard lock(mutex_);
    if (unwritten_.empty()) return {};  // another thread has written them
    if (!up_to_date()) adopt(read_file(path_, kMostBytes));
    said = unsaid(is_heard);
    if (!replaceable_) return said;  // without a lock file beside what is not ours
  }
  const auto failed = [&](const Status& why) {
    return Status(why.code(), text("the tuning file ", path_, " was not written: ", why.message(),
                                   said.ok() ? "" : "; ", said.message()));
  };
  const std::string target = follow_links(path_);
  if (auto made = make_folders_above(target); !made.ok()) return failed(made);
  // Stores that follow each other closely would keep all others out.
  std::this_thread::sleep_until(released_ + kTurn);
  Status written;
  {
    const auto left =
        std::chrono::ceil<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now());
    const auto held = FileLock::take(target, left);  // not under mutex_: it may take a while
    if (!held) return failed(held.status());
    const std::lock_guard lock(mutex_);
    written = write(target, is_heard, said);
  }
  released_ = std::chrono::steady_clock::now();
  return written.ok() ? said : failed(written);
}

Status TuningCache::write(const std::string& target, bool is_heard, Status& said) {
  const auto file = read_file(target, kMostBytes);
  adopt(file);
  if (said.ok()) said = unsaid(is_heard);
  if (!replaceable_) return {};
  const auto merged = merge_tuning(file.text, unwritten_);
  if (merged.size() > kMostBytes) {
    return {StatusCode::Unsupported, "it would have more than 256 MiB; remove it to begin anew"};
  }
  AI_RETURN_IF_ERROR(replace_file(target, merged));
  read_ = stamp_of(target);
  problem_ = {};
  unwritten_.clear();
  return {};
}

}  // namespace ai::detail
