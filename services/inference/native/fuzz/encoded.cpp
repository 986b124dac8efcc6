// The bytes are an encoded adapter: refused with a text, or one that runs.
// EDGELORA_FUZZ_MODEL names the packed model.
#include <cmath>
#include <cstdlib>

#include "../tests/adapters.h"

namespace {

using namespace edgelora::check;

constexpr el_limits kLimits{2, 1, 24, 4, 1, 0};

const char* model_path() {
  const char* path = std::getenv("EDGELORA_FUZZ_MODEL");
  expect(path != nullptr, "EDGELORA_FUZZ_MODEL names the packed model");
  return path;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const EnginePointer engine = must_open(model_path(), kLimits);
  char error[256] = "";
  const int64_t bytes = el_load_encoded(engine.get(), 0, data, size, error, sizeof error);
  expect((bytes < 0) == (error[0] != '\0'), "a refusal has a status and a text");
  if (bytes < 0) return 0;
  const std::vector<float> logits = must_forward(engine.get(), {{{1, 2}, 0, {0}, {{0, 1.0f}}}});
  size_t finite = 0;
  for (const float logit : logits) finite += std::isfinite(logit) ? 1 : 0;
  expect(finite == 0 || finite == logits.size(), "a row is finite or all NaN");
  must(unload(engine.get(), 0));
  return 0;
}
