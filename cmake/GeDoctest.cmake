# doctest::doctest: an installed one, else a pinned release (or FETCHCONTENT_SOURCE_DIR_DOCTEST).
include(FetchContent)
FetchContent_Declare(doctest
  URL https://github.com/doctest/doctest/archive/refs/tags/v2.4.11.tar.gz
  URL_HASH SHA256=632ed2c05a7f53fa961381497bf8069093f0d6628c5f26286161fbd32a560186
  SOURCE_SUBDIR header-only  # no such folder: the header is used, its own CMakeLists.txt is not
  FIND_PACKAGE_ARGS 2.4)
FetchContent_MakeAvailable(doctest)
if(NOT TARGET doctest::doctest)
  if(NOT EXISTS "${doctest_SOURCE_DIR}/doctest/doctest.h")
    message(FATAL_ERROR "${doctest_SOURCE_DIR} is no source tree of doctest: it has no doctest/doctest.h.")
  endif()
  add_library(doctest::doctest INTERFACE IMPORTED GLOBAL)
  target_include_directories(doctest::doctest INTERFACE "${doctest_SOURCE_DIR}")
endif()
