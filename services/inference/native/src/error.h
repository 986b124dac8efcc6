#pragma once

#include <stdexcept>
#include <string>

namespace edgelora {

// A caller's mistake or a bad file: the text says what and what to do.
class Error : public std::runtime_error {
 public:
  explicit Error(const std::string& text) : std::runtime_error(text) {}
};

inline void require(bool holds, const char* text) {
  if (!holds) throw Error(text);
}

}  // namespace edgelora
