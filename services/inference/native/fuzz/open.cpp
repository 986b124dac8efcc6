// The bytes are a packed model file: refused with a text, or a model that runs a step.
#include <sys/mman.h>
#include <unistd.h>

#include <string>

#include "../tests/adapters.h"

namespace {

using namespace edgelora::check;

constexpr el_limits kLimits{4, 1, 2, 8, 1, 0};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const int file = ::memfd_create("model", MFD_CLOEXEC);
  static const std::string path = "/proc/self/fd/" + std::to_string(file);
  expect(::ftruncate(file, 0) == 0, "the file can be emptied");
  expect(::pwrite(file, data, size, 0) == static_cast<ssize_t>(size), "the file can be written");
  Refusal refusal;
  const EnginePointer engine = open(path, kLimits, refusal);
  expect((engine == nullptr) != refusal.empty(), "a refusal has a text");
  if (engine == nullptr) return 0;
  const edgelora::PackedFile model(path);
  must(load(engine.get(), 0, Adapter(model.header(), 1, 2, all_modules()).pairs));
  const auto last = el_describe(engine.get()).vocab_size - 1;
  std::vector<float> logits;
  // A context of one or two tokens is refused here, which is fine.
  forward(engine.get(), {{{0, last}, 0, {1}, {}}, {{last}, 2, {3}, {{0, 1.0f}}}}, logits);
  return 0;
}
