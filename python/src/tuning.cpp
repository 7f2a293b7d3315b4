#include "tuning.hpp"

#include <nanobind/stl/string.h>

#include <utility>

#include "bindings.hpp"
#include "gil.hpp"
#include "option.hpp"
#include "status.hpp"

namespace ge_python {
namespace {

using namespace nb::literals;

/// A TuningProgress that outlives the call.
struct Progress {
  std::string task;
  ai::TuningProgress numbers;
};

nb::object handler(const char* name, nb::handle object) {
  if (!object.is_none() && PyCallable_Check(object.ptr()) == 0) {
    refuse_type(name, object, "a function or None");
  }
  return nb::borrow(object);
}

std::string repr(const ai::TuningReport& report) {
  return "TuningReport(tasks=" + std::to_string(report.tasks) +
         ", recalled=" + std::to_string(report.recalled) +
         ", measured=" + std::to_string(report.measured) +
         ", candidates_timed=" + std::to_string(report.candidates_timed) +
         ", heuristic_queries=" + std::to_string(report.heuristic_queries) +
         ", kernels_compiled=" + std::to_string(report.kernels_compiled) +
         ", compile_s=" + std::to_string(report.compile_s) +
         ", orders_timed=" + std::to_string(report.orders_timed) +
         ", seconds=" + std::to_string(report.seconds) + ")";
}

std::string repr(const Progress& progress) {
  const ai::TuningProgress& numbers = progress.numbers;
  return "<TuningProgress: task " + std::to_string(numbers.tasks_done + 1) + " of " +
         std::to_string(numbers.tasks) + ", candidate " +
         std::to_string(numbers.candidates_done + 1) + " of " + std::to_string(numbers.candidates) +
         ", " + progress.task + ">";
}

nb::object cache_path() {
  const std::string path = ai::tuning_cache_path();
  return nb::steal(PyUnicode_DecodeFSDefaultAndSize(path.data(), Py_ssize_t(path.size())));
}

void set_cache_path(nb::handle object) {
  const std::optional<std::string> path = path_of("path", object);
  check(ai::set_tuning_cache_path(path));
}

}  // namespace

ai::Tuning tuning_of(nb::handle object) {
  return option_of<ai::Tuning>(object, "tuning",
                               {{"off", static_cast<int>(ai::Tuning::Off)},
                                {"measure", static_cast<int>(ai::Tuning::Measure)},
                                {"remeasure", static_cast<int>(ai::Tuning::Remeasure)}});
}

std::optional<std::string> path_of(const char* name, nb::handle object) {
  if (object.is_none()) return std::nullopt;
  const nb::object path = nb::steal(PyOS_FSPath(object.ptr()));
  if (!path.is_valid()) {
    PyErr_Clear();
    refuse_type(name, object, "a path (str, bytes, os.PathLike) or None");
  }
  nb::object bytes = path;
  if (PyUnicode_Check(path.ptr()) != 0) bytes = nb::steal(PyUnicode_EncodeFSDefault(path.ptr()));
  char* text = nullptr;
  if (!bytes.is_valid() || PyBytes_AsStringAndSize(bytes.ptr(), &text, nullptr) != 0) {
    throw nb::python_error();
  }
  return std::string(text);
}

TuningEvents::TuningEvents(nb::handle on_progress, nb::handle on_warning)
    : on_progress_(handler("on_tuning_progress", on_progress)),
      on_warning_(handler("on_tuning_warning", on_warning)) {}

void TuningEvents::listen(ai::CaptureOptions& options) {
  if (!on_progress_.is_none()) {
    options.on_tuning_progress = [this](const ai::TuningProgress& progress) { tell(progress); };
  }
  options.on_tuning_warning = [this](const ai::Status& warning) { tell(warning); };
}

template <typename Call>
void TuningEvents::guarded(const Call& call) noexcept {
  const WithGil locked;
  if (error_) return;
  try {
    call();
  } catch (nb::python_error& error) {
    error_.emplace(std::move(error));
  } catch (...) {
    PyErr_NoMemory();
    error_.emplace();
  }
}

void TuningEvents::tell(const ai::TuningProgress& progress) {
  guarded([&] { on_progress_(Progress{std::string(progress.task), progress}); });
}

void TuningEvents::tell(const ai::Status& warning) {
  if (on_warning_.is_none()) {
    unheard_.push_back(warning.to_string());
    return;
  }
  guarded([&] { on_warning_(warning.to_string()); });
}

void TuningEvents::finish() {
  if (error_) throw nb::python_error(std::move(*error_));
  for (const std::string& text : unheard_) {
    if (PyErr_WarnEx(PyExc_RuntimeWarning, text.c_str(), 1) != 0) throw nb::python_error();
  }
}

void bind_tuning(nb::module_& module) {
  nb::enum_<ai::Tuning>(module, "Tuning", "How candidates are chosen.")
      .value("Off", ai::Tuning::Off, "The first one that applies. No tuning file.")
      .value("Measure", ai::Tuning::Measure,
             "The fastest one: what the tuning file knows, else timed on scratch operands and\n"
             "stored there.")
      .value("Remeasure", ai::Tuning::Remeasure,
             "Timed, whatever the tuning file knows, and stored instead of that.");
  nb::class_<ai::TuningReport>(module, "TuningReport",
                               "What choosing candidates for one Executable took.")
      .def_ro("tasks", &ai::TuningReport::tasks, "Choices with more than one way open.")
      .def_ro("recalled", &ai::TuningReport::recalled, "Of them: taken from the tuning file.")
      .def_ro("measured", &ai::TuningReport::measured,
              "Of them: measured now (the rest repeat another).")
      .def_ro("candidates_timed", &ai::TuningReport::candidates_timed, "In all of them.")
      .def_ro("heuristic_queries", &ai::TuningReport::heuristic_queries,
              "Questions to cuBLASLt's heuristic.")
      .def_ro("kernels_compiled", &ai::TuningReport::kernels_compiled,
              "For runs of layers as a whole; the rest came from files.")
      .def_ro("compile_s", &ai::TuningReport::compile_s,
              "What each took, added up: several are compiled at once.")
      .def_ro("orders_timed", &ai::TuningReport::orders_timed,
              "Ways to order all steps, tried on the program as a whole.")
      .def_ro("seconds", &ai::TuningReport::seconds, "Wall time of choosing.")
      .def("__repr__", [](const ai::TuningReport& self) { return repr(self); });
  nb::class_<Progress>(module, "TuningProgress", "How far the measuring of one capture has come.")
      .def_ro("task", &Progress::task, "At hand, as explain() calls it.")
      .def_prop_ro(
          "tasks", [](const Progress& self) { return self.numbers.tasks; },
          "That are to be measured, runs of layers as a whole included.")
      .def_prop_ro(
          "tasks_done", [](const Progress& self) { return self.numbers.tasks_done; }, "Of them.")
      .def_prop_ro(
          "candidates", [](const Progress& self) { return self.numbers.candidates; },
          "Of the task at hand that apply.")
      .def_prop_ro(
          "candidates_done", [](const Progress& self) { return self.numbers.candidates_done; },
          "Of them.")
      .def_prop_ro(
          "elapsed_s", [](const Progress& self) { return self.numbers.elapsed_s; },
          "Since measuring began.")
      .def_prop_ro(
          "budget_s", [](const Progress& self) { return self.numbers.budget_s; },
          "capture's tuning_budget_s.")
      .def("__repr__", [](const Progress& self) { return repr(self); });
  module.def("tuning_cache_path", &cache_path, nb::sig("def tuning_cache_path() -> str"),
             "The tuning file of every capture that names none, and of direct calls: what\n"
             "set_tuning_cache_path() was given, else the environment variable\n"
             "GRAPH_EXECUTOR_TUNING_CACHE, else graph_executor/tuning.json in XDG_CACHE_HOME or\n"
             "in ~/.cache. '' where there is none (the variable is empty or 'off', or there is\n"
             "no home).");
  module.def("set_tuning_cache_path", &set_cache_path, "path"_a.none(),
             nb::sig("def set_tuning_cache_path(path: str | bytes | os.PathLike[str] | None) "
                     "-> None"),
             "Moves it for this process; '': no file; None: back to the environment. TypeError\n"
             "for what is no path.");
}

}  // namespace ge_python
