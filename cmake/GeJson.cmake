# nlohmann_json::nlohmann_json, headers only: an installed one, else those of the Python package nlohmann-json,
# which a build by pip brings along.
if(NOT TARGET nlohmann_json::nlohmann_json)
  find_package(nlohmann_json 3.10 CONFIG QUIET)
endif()
if(NOT TARGET nlohmann_json::nlohmann_json)
  set(ge_json_python "${Python_EXECUTABLE}")
  if(NOT ge_json_python)
    find_package(Python3 QUIET COMPONENTS Interpreter)
    set(ge_json_python "${Python3_EXECUTABLE}")
  endif()
  set(ge_json_include "")
  if(ge_json_python)
    execute_process(  # found without being imported, which would need another package
      COMMAND "${ge_json_python}" -c "import importlib.util, pathlib
found = importlib.util.find_spec('nlohmann_json')
print((pathlib.Path(found.origin).parent / 'include').as_posix() if found and found.origin else '')"
      OUTPUT_VARIABLE ge_json_include OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
  endif()
  if(NOT ge_json_include OR NOT EXISTS "${ge_json_include}/nlohmann/json.hpp")
    message(FATAL_ERROR
      "The headers of nlohmann-json (3.10 or newer) were not found. Install them (Debian: nlohmann-json3-dev), or "
      "the Python package nlohmann-json for the interpreter that builds this ('${ge_json_python}'), or set "
      "nlohmann_json_DIR to the folder of nlohmann_jsonConfig.cmake.")
  endif()
  add_library(nlohmann_json::nlohmann_json INTERFACE IMPORTED)
  target_include_directories(nlohmann_json::nlohmann_json INTERFACE "${ge_json_include}")
  message(STATUS "graph_executor: JSON headers of the Python package nlohmann-json, ${ge_json_include}")
endif()
