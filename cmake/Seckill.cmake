# How a library, a program and a test of seckill are declared, and the compiler settings they share.
option(SECKILL_TESTS "build the tests" ON)
option(SECKILL_FUZZ "build the libFuzzer targets (clang)" OFF)
set(SECKILL_SANITIZE "" CACHE STRING "sanitizers, as for -fsanitize=")

set(CMAKE_C_STANDARD 17)
set(CMAKE_C_STANDARD_REQUIRED ON)
set(CMAKE_C_EXTENSIONS OFF)
if(NOT CMAKE_BUILD_TYPE)
    set(CMAKE_BUILD_TYPE Release)
endif()
set(CMAKE_C_FLAGS_RELEASE "-O2 -g")
# Named places where a test may end the process (base/crashpoint.h): not in release builds.
if(CMAKE_BUILD_TYPE STREQUAL Debug)
    option(SECKILL_CRASHPOINTS "compile the crash points in" ON)
else()
    option(SECKILL_CRASHPOINTS "compile the crash points in" OFF)
endif()
if(SECKILL_CRASHPOINTS)
    add_compile_definitions(SECKILL_CRASHPOINTS=1)
endif()
add_compile_definitions(_GNU_SOURCE SECKILL_VERSION="${PROJECT_VERSION}")

# Warnings are for our own code; third-party sources (llhttp) do not link this target.
add_library(seckill_flags INTERFACE)
target_compile_options(seckill_flags INTERFACE
    -Wall -Wextra -Werror -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wpointer-arith -Wcast-qual
    -Wwrite-strings -Wvla -Wformat=2 -Wundef -Wno-missing-field-initializers -fno-omit-frame-pointer -fno-strict-aliasing)
if(SECKILL_SANITIZE)
    add_compile_options(-fsanitize=${SECKILL_SANITIZE} -fno-sanitize-recover=all)
    string(REPLACE "fuzzer-no-link," "" link_sanitizers "${SECKILL_SANITIZE}")
    add_link_options(-fsanitize=${link_sanitizers})
endif()

# seckill_library(NAME DIR layer/dir SOURCES a.c … LINK other libraries)
# A library sees its own directory and those of the libraries it links, each through a directory that holds nothing
# but one link: so an include across a forbidden border does not compile. `#include "base/err.h"` needs LINK base.
function(seckill_library name)
    cmake_parse_arguments(arg "" "DIR" "SOURCES;LINK" ${ARGN})
    set(view ${CMAKE_BINARY_DIR}/include/${name})
    get_filename_component(parent ${view}/${arg_DIR} DIRECTORY)
    file(MAKE_DIRECTORY ${parent})
    file(CREATE_LINK ${CMAKE_SOURCE_DIR}/src/${arg_DIR} ${view}/${arg_DIR} SYMBOLIC)
    if(arg_SOURCES)
        add_library(${name} STATIC ${arg_SOURCES})
        target_include_directories(${name} PUBLIC ${view})
        target_link_libraries(${name} PUBLIC ${arg_LINK} PRIVATE seckill_flags)
    else()
        add_library(${name} INTERFACE)
        target_include_directories(${name} INTERFACE ${view})
        target_link_libraries(${name} INTERFACE ${arg_LINK})
    endif()
endfunction()

# seckill_program(NAME SOURCES … LINK …)
function(seckill_program name)
    cmake_parse_arguments(arg "" "" "SOURCES;LINK" ${ARGN})
    add_executable(${name} ${arg_SOURCES})
    target_link_libraries(${name} PRIVATE ${arg_LINK} seckill_flags)
    set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/bin)
endfunction()

# seckill_test(NAME SOURCES … LINK … [LABELS …] [ENV A=B …]): a cmocka program, run by CTest.
function(seckill_test name)
    cmake_parse_arguments(arg "" "" "SOURCES;LINK;LABELS;ENV" ${ARGN})
    add_executable(${name} ${arg_SOURCES})
    target_link_libraries(${name} PRIVATE ${arg_LINK} cmocka seckill_flags)
    target_compile_definitions(${name} PRIVATE SECKILL_SOURCE_DIR="${CMAKE_SOURCE_DIR}")
    set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/test)
    add_test(NAME ${name} COMMAND ${name})
    set_tests_properties(${name} PROPERTIES TIMEOUT 900 LABELS "${arg_LABELS}" ENVIRONMENT "${arg_ENV}")
endfunction()

# seckill_pytest(NAME FILE [LABELS …] [ARGS …]): a pytest file, run by CTest against this build's programs.
function(seckill_pytest name file)
    cmake_parse_arguments(arg "" "TIMEOUT" "LABELS;ARGS" ${ARGN})
    if(NOT arg_TIMEOUT)
        set(arg_TIMEOUT 1200)
    endif()
    add_test(NAME ${name} COMMAND /usr/bin/python3 -m pytest -q -x -p no:cacheprovider ${file} ${arg_ARGS}
        WORKING_DIRECTORY ${CMAKE_CURRENT_SOURCE_DIR})
    set_tests_properties(${name} PROPERTIES TIMEOUT ${arg_TIMEOUT} LABELS "${arg_LABELS}"
        ENVIRONMENT "SECKILL_BIN_DIR=${CMAKE_BINARY_DIR}/bin;SECKILL_SOURCE_DIR=${CMAKE_SOURCE_DIR};PYTHONDONTWRITEBYTECODE=1")
endfunction()
