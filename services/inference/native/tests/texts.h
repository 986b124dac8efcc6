// Batches of whole texts for the programs that check the encoder.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "adapters.h"
#include "edgelora_encoder.h"
#include "encoder_file.h"
#include "lora_slots.h"

namespace edgelora::check {

struct Text {
  std::vector<int32_t> tokens;
  std::vector<std::pair<int32_t, float>> adapters;
  int32_t pooling = EL_POOL_MEAN;
};

// Texts in the form of the C interface.
struct Texts {
  explicit Texts(const std::vector<Text>& texts);
  el_texts view() const;

  std::vector<int32_t> token_ids, token_offsets{0}, slots, adapter_offsets{0}, poolings;
  std::vector<float> weights;
};

struct CloseEncoder {
  void operator()(el_encoder* encoder) const { el_encoder_close(encoder); }
};
using EncoderPointer = std::unique_ptr<el_encoder, CloseEncoder>;

EncoderPointer open_encoder(const std::string& path, const el_encoder_limits& limits,
                            Refusal& refusal);
// Random factors of one rank for the given modules of every layer.
Adapter encoder_adapter(const EncoderFile& file, uint32_t seed, int rank,
                        const std::vector<int>& modules);
std::vector<int> all_encoder_modules();
Refusal load(el_encoder* encoder, int32_t slot, const std::vector<el_lora_pair>& pairs);
Refusal unload(el_encoder* encoder, int32_t slot);
Refusal encode(el_encoder* encoder, const std::vector<Text>& texts, std::vector<float>& vectors);
std::vector<float> must_encode(el_encoder* encoder, const std::vector<Text>& texts);

}  // namespace edgelora::check
