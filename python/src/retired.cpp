#include "retired.hpp"

#include <iterator>
#include <new>
#include <utility>

#include "gc.hpp"
#if GE_PYTHON_WITH_CUDA
#include "cuda/guards.hpp"
#include "cuda/owners.hpp"
#endif

namespace ge_python {

#if GE_PYTHON_WITH_CUDA
namespace cuda = ai::cuda;

struct Retired::Event {
  explicit Event(cuda::OwnedEvent made) noexcept : event(std::move(made)) {}
  ~Event() {
    const cuda::CaptureModeGuard relaxed(cuda::runtime_api());
    event.reset();
  }
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;
  cuda::OwnedEvent event;
};

// Where an event cannot be had, what waits for it is kept until a later one, wait() or the end.
void Retired::mark(ai::Stream stream) noexcept {
  const cuda::Api& api = cuda::runtime_api();
  const cuda::DeviceGuard guard(api, device_);
  if (!guard.status().ok()) return event_.reset();
  if (!event_ || event_.use_count() > 1) {
    const cuda::CaptureModeGuard relaxed(api);
    event_.reset();
    ai::Result<cuda::OwnedEvent> made = cuda::make_event(api, false);
    if (!made) return;
    try {
      event_ = std::make_shared<Event>(std::move(*made));
    } catch (const std::bad_alloc&) {
      return;
    }
  }
  if (api.event_record(event_->event.get(), stream) != cudaSuccess) {
    (void)api.get_last_error();
    return event_.reset();
  }
  for (auto group = groups_.rbegin(); group != groups_.rend() && !group->event; ++group) {
    group->event = event_;
  }
}

bool Retired::is_over(const Group& group) noexcept {
  if (group.until_wait || !group.event) return false;
  const cuda::Api& api = cuda::runtime_api();
  const cuda::CaptureModeGuard relaxed(api);
  if (api.event_query(group.event->event.get()) == cudaSuccess) return true;
  (void)api.get_last_error();  // "not ready" is one too
  return false;
}
#else
struct Retired::Event {};
void Retired::mark(ai::Stream) noexcept {}
bool Retired::is_over(const Group&) noexcept {
  return false;
}
#endif

void Retired::retire(Objects& objects) noexcept {
  if (objects.empty() || device_ < 0) return;
  watching_ = true;
  if (!used_ && groups_.empty()) return;
  try {
    append(objects);
  } catch (const std::bad_alloc&) {  // better never freed than too early
    for (nb::object& object : objects) (void)object.release();
    objects.clear();
  }
}

void Retired::append(Objects& objects) {
  if (used_) {
    groups_.push_back({{}, event_, enqueued_});
    used_ = enqueued_ = false;
  }
  // Without a launch in between, the last group's end is theirs.
  Objects& last = groups_.back().objects;
  last.insert(last.end(), std::make_move_iterator(objects.begin()),
              std::make_move_iterator(objects.end()));
  objects.clear();
}

std::size_t Retired::over() noexcept {
  std::size_t count = 0;
  while (count < groups_.size() && is_over(groups_[count])) ++count;
  return count;
}

std::size_t Retired::all_over() noexcept {
  used_ = enqueued_ = false;
  return groups_.size();
}

void Retired::take(std::size_t groups, Objects& objects) {
  const auto end = groups_.begin() + static_cast<std::ptrdiff_t>(groups);
  for (auto group = groups_.begin(); group != end; ++group) {
    objects.insert(objects.end(), std::make_move_iterator(group->objects.begin()),
                   std::make_move_iterator(group->objects.end()));
  }
  groups_.erase(groups_.begin(), end);
}

int Retired::traverse(visitproc visit, void* arg) const {
  for (const Group& group : groups_) {
    if (const int stop = visit_all(group.objects, visit, arg)) return stop;
  }
  return 0;
}

}  // namespace ge_python
