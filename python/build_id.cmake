# Writes HEADER and MODULE, which say what build of PACKAGE this is: a hash over the contents of the sources (not their
# places) and OPTIONS, how they are compiled. Equal inputs give equal files, and a file that is right is left alone.
# cmake -DPACKAGE=... -DOPTIONS=... -DROOT=... -DSOURCES=<file with a source a line> -DHEADER=... -DMODULE=... -P this
cmake_minimum_required(VERSION 3.25)
file(STRINGS ${SOURCES} sources)
list(SORT sources)
set(identity "${PACKAGE} ${OPTIONS}")
foreach(source IN LISTS sources)
  file(SHA256 ${source} hash)
  file(RELATIVE_PATH name ${ROOT} ${source})
  string(APPEND identity "\n${name} ${hash}")
endforeach()
string(SHA256 id "${identity}")
string(SUBSTRING ${id} 0 16 id)
file(CONFIGURE OUTPUT ${HEADER} @ONLY CONTENT "#pragma once
// Python objects are shared between the extension modules of one domain: here, of one build of one package.
#define NB_DOMAIN @PACKAGE@_@id@
#define GE_BUILD_ID \"@id@\"
")
file(CONFIGURE OUTPUT ${MODULE} @ONLY CONTENT
  "\"\"\"Written by the build, as what _core was compiled from.\"\"\"\n\nBUILD_ID = \"@id@\"\n")
