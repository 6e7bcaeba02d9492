# Third-party libraries, one place. Why each one: docs/dependencies.md.
find_package(PkgConfig REQUIRED)
find_package(Threads REQUIRED)
pkg_check_modules(LIBEVENT REQUIRED IMPORTED_TARGET libevent libevent_pthreads)
pkg_check_modules(HIREDIS REQUIRED IMPORTED_TARGET hiredis)
pkg_check_modules(LIBPQ REQUIRED IMPORTED_TARGET libpq)
pkg_check_modules(OPENSSL REQUIRED IMPORTED_TARGET libcrypto)
pkg_check_modules(YAML REQUIRED IMPORTED_TARGET yaml-0.1)
pkg_check_modules(JANSSON REQUIRED IMPORTED_TARGET jansson)

# Node's HTTP parser: Debian ships its generated C sources, not a library.
find_path(LLHTTP_INCLUDE llhttp.h PATHS /usr/share/include/llhttp REQUIRED)
find_path(LLHTTP_SOURCE llhttp.c PATHS /usr/share/llhttp REQUIRED)
add_library(llhttp STATIC ${LLHTTP_SOURCE}/api.c ${LLHTTP_SOURCE}/http.c ${LLHTTP_SOURCE}/llhttp.c)
target_include_directories(llhttp SYSTEM PUBLIC ${LLHTTP_INCLUDE})
target_compile_definitions(llhttp PRIVATE LLHTTP_STRICT_MODE=1)
target_compile_options(llhttp PRIVATE -w -O2)
