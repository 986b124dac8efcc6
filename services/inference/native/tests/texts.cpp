#include "texts.h"

#include "encoder.h"

namespace edgelora::check {
namespace {

constexpr size_t kErrorSize = 256;

}  // namespace

Texts::Texts(const std::vector<Text>& texts) {
  const auto end = [](const auto& list) { return static_cast<int32_t>(list.size()); };
  for (const Text& text : texts) {
    token_ids.insert(token_ids.end(), text.tokens.begin(), text.tokens.end());
    token_offsets.push_back(end(token_ids));
    for (const auto& [slot, weight] : text.adapters) {
      slots.push_back(slot);
      weights.push_back(weight);
    }
    adapter_offsets.push_back(end(slots));
    poolings.push_back(text.pooling);
  }
}

el_texts Texts::view() const {
  return {static_cast<int32_t>(poolings.size()),
          token_ids.data(),
          token_offsets.data(),
          slots.data(),
          weights.data(),
          adapter_offsets.data(),
          poolings.data()};
}

EncoderPointer open_encoder(const std::string& path, const el_encoder_limits& limits,
                            Refusal& refusal) {
  char error[kErrorSize] = "";
  EncoderPointer encoder(el_encoder_open(path.c_str(), &limits, error, sizeof error));
  refusal = error;
  return encoder;
}

Adapter encoder_adapter(const EncoderFile& file, uint32_t seed, int rank,
                        const std::vector<int>& modules) {
  return {lora_shape(file), seed, rank, modules};
}

std::vector<int> all_encoder_modules() {
  return {EL_QUERY, EL_KEY, EL_VALUE, EL_ATTENTION_OUTPUT, EL_INTERMEDIATE, EL_OUTPUT};
}

Refusal load(el_encoder* encoder, int32_t slot, const std::vector<el_lora_pair>& pairs) {
  char error[kErrorSize] = "";
  const int64_t bytes = el_encoder_load(encoder, slot, pairs.data(),
                                        static_cast<int32_t>(pairs.size()), error, sizeof error);
  expect((bytes < 0) == (error[0] != '\0'), "a refusal has a status and a text");
  return error;
}

Refusal unload(el_encoder* encoder, int32_t slot) {
  char error[kErrorSize] = "";
  const int status = el_encoder_unload(encoder, slot, error, sizeof error);
  expect((status != 0) == (error[0] != '\0'), "a refusal has a status and a text");
  return error;
}

Refusal encode(el_encoder* encoder, const std::vector<Text>& texts, std::vector<float>& vectors) {
  const Texts batch(texts);
  vectors.assign(texts.size() * static_cast<size_t>(el_encoder_describe(encoder).hidden_size),
                 0.0f);
  char error[kErrorSize] = "";
  const el_texts view = batch.view();
  const int status = el_encode(encoder, &view, vectors.data(), error, sizeof error);
  expect((status != 0) == (error[0] != '\0'), "a refusal has a status and a text");
  return error;
}

std::vector<float> must_encode(el_encoder* encoder, const std::vector<Text>& texts) {
  std::vector<float> vectors;
  must(encode(encoder, texts, vectors));
  return vectors;
}

}  // namespace edgelora::check
