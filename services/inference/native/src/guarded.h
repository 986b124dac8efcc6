// Where exceptions end, for the functions of the C interface.
#pragma once

#include <cstddef>
#include <cstdio>
#include <exception>
#include <new>

namespace edgelora {

// Runs f; returns 0, or -1 with one line of text in `error` when it threw.
template <typename F>
int guarded(char* error, size_t error_size, F&& f) {
  try {
    f();
    return 0;
  } catch (const std::bad_alloc&) {
    std::snprintf(error, error_size, "%s", "out of memory");
  } catch (const std::exception& failure) {
    std::snprintf(error, error_size, "%s", failure.what());
  }
  return -1;
}

}  // namespace edgelora
