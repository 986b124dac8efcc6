// The bytes are a packed encoder file: refused with a text, or a model that encodes.
#include <sys/mman.h>
#include <unistd.h>

#include <cmath>
#include <string>

#include "../tests/texts.h"

namespace {

using namespace edgelora::check;

constexpr el_encoder_limits kLimits{1, 2, 24, 1};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const int file = ::memfd_create("encoder", MFD_CLOEXEC);
  static const std::string path = "/proc/self/fd/" + std::to_string(file);
  expect(::ftruncate(file, 0) == 0, "the file can be emptied");
  expect(::pwrite(file, data, size, 0) == static_cast<ssize_t>(size), "the file can be written");
  Refusal refusal;
  const EncoderPointer encoder = open_encoder(path, kLimits, refusal);
  expect((encoder == nullptr) != refusal.empty(), "a refusal has a text");
  if (encoder == nullptr) return 0;
  const edgelora::EncoderFile model(path);
  // Factors of the file that are no numbers make an adapter that does not fit.
  const bool is_loaded =
      load(encoder.get(), 0, encoder_adapter(model, 1, 2, all_encoder_modules()).pairs).empty();
  const el_encoder_description shape = el_encoder_describe(encoder.get());
  std::vector<Text> texts{{{0, shape.vocab_size - 1}, {}}, {{0}, {}, EL_POOL_FIRST}};
  if (is_loaded) texts[0].adapters = {{0, 1.0f}};
  if (shape.has_pooler != 0) texts[1].pooling = EL_POOL_POOLER;
  std::vector<float> vectors;
  // A context of one token is refused here, which is fine.
  if (!encode(encoder.get(), texts, vectors).empty()) return 0;
  const auto width = static_cast<size_t>(shape.hidden_size);
  for (size_t text = 0; text < texts.size(); text++) {
    size_t finite = 0;
    for (size_t i = 0; i < width; i++) finite += std::isfinite(vectors[text * width + i]) ? 1 : 0;
    expect(finite == 0 || finite == width, "a vector is finite or all NaN");
  }
  return 0;
}
