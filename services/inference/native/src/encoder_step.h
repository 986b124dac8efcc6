// A checked batch of whole texts, turned into the rows and adapter groups of one step.
#pragma once

#include <cstdint>
#include <vector>

#include "adapter_rows.h"
#include "edgelora_encoder.h"
#include "encoder_file.h"

namespace edgelora {

struct EncoderStep {
  // Throws Error when the batch asks for what the encoder does not have.
  EncoderStep(const el_texts& texts, const EncoderFile& file, const el_encoder_limits& limits,
              LoraSlots& slots);

  const el_texts& texts;
  AdapterRows adapters;
  std::vector<int32_t> positions;  // of each row in its text
  int32_t longest_text = 0;

  int num_rows() const { return static_cast<int>(positions.size()); }
  int first_row(int text) const { return texts.token_offsets[text]; }
  int length(int text) const { return texts.token_offsets[text + 1] - texts.token_offsets[text]; }

 private:
  void check_text(int32_t text, const EncoderFile& file, const el_encoder_limits& limits) const;
  void list_adapters(int32_t text);
};

}  // namespace edgelora
