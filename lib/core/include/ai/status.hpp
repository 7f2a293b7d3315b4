#pragma once

#include <optional>
#include <string>
#include <utility>

namespace ai {

/// Why a call failed. One code per class of mistake, so that callers can branch on it.
enum class StatusCode {
  Ok,
  Invalid,             ///< an argument has no meaning (NaN slope, null pointer, misaligned pointer)
  Unsupported,         ///< meaningful, but not done by this build or on this device
  MissingInput,        ///< an operand that must be read was not given
  MissingOutput,       ///< an operand that must be written was not given
  DeviceMismatch,      ///< operands, program and target do not live on one device
  DtypeMismatch,       ///< an element type that this operand cannot have
  LayoutMismatch,      ///< a layout that this operand cannot have
  ShapeMismatch,       ///< extents that do not fit each other
  StrideMismatch,      ///< strides that the operand cannot have (leading dimension < width, ...)
  Overlap,             ///< an output shares memory with another operand
  OutOfMemory,         ///< host or device memory ran out
  CaptureActive,       ///< the stream is being captured by the caller
  CaptureInvalidated,  ///< something else broke the capture, also after retries
  CudaError,           ///< any other error reported by CUDA or one of its libraries
};

/// The code's name, e.g. "ShapeMismatch".
[[nodiscard]] const char* to_string(StatusCode code) noexcept;

/// Outcome of a call: a code and, on failure, one sentence that names the operand, what was given
/// and what was wanted. Success allocates nothing.
class [[nodiscard]] Status {
 public:
  Status() noexcept = default;
  Status(StatusCode code, std::string message) noexcept
      : code_(code), message_(std::move(message)) {}
  /// A copy keeps the code and loses the text where host memory has run out.
  Status(const Status& other) noexcept;
  Status& operator=(const Status& other) noexcept;
  Status(Status&&) noexcept = default;
  Status& operator=(Status&&) noexcept = default;
  ~Status() = default;

  [[nodiscard]] bool ok() const noexcept { return code_ == StatusCode::Ok; }
  [[nodiscard]] StatusCode code() const noexcept { return code_; }
  /// The sentence, without the code's name. Empty on success.
  [[nodiscard]] const std::string& message() const noexcept { return message_; }
  /// "ShapeMismatch: B is [128,192], expected ..." or "Ok".
  [[nodiscard]] std::string to_string() const;

 private:
  StatusCode code_ = StatusCode::Ok;
  std::string message_;
};

/// A value, or the Status that says why there is none.
template <typename T>
class [[nodiscard]] Result {
 public:
  Result(T value) : value_(std::move(value)) {}  // NOLINT(google-explicit-constructor)
  /// `status` must not be ok: a Result without a value is a failure.
  Result(Status status)  // NOLINT(google-explicit-constructor)
      : status_(status.ok() ? Status(StatusCode::Invalid, "a Result was made of an ok Status")
                            : std::move(status)) {}

  [[nodiscard]] bool ok() const noexcept { return value_.has_value(); }
  [[nodiscard]] explicit operator bool() const noexcept { return ok(); }
  [[nodiscard]] const Status& status() const noexcept { return status_; }

  /// The value. Precondition: ok().
  [[nodiscard]] T& value() & noexcept { return *value_; }
  [[nodiscard]] const T& value() const& noexcept { return *value_; }
  [[nodiscard]] T&& value() && noexcept { return std::move(*value_); }
  [[nodiscard]] T& operator*() & noexcept { return *value_; }
  [[nodiscard]] const T& operator*() const& noexcept { return *value_; }
  [[nodiscard]] T* operator->() noexcept { return &*value_; }
  [[nodiscard]] const T* operator->() const noexcept { return &*value_; }

 private:
  Status status_;
  std::optional<T> value_;
};

}  // namespace ai

/// Leaves the enclosing function with the Status of `expression` unless it is ok.
#define AI_RETURN_IF_ERROR(expression)                              \
  do {                                                              \
    if (::ai::Status ai_status_ = (expression); !ai_status_.ok()) { \
      return ai_status_;                                            \
    }                                                               \
  } while (false)
