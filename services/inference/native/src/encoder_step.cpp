#include "encoder_step.h"

#include <algorithm>

#include "error.h"

namespace edgelora {
namespace {

constexpr const char* kMissing = "an array of the batch is missing";

}  // namespace

EncoderStep::EncoderStep(const el_texts& t, const EncoderFile& file,
                         const el_encoder_limits& limits, LoraSlots& slots)
    : texts(t), adapters(slots) {
  require(t.num_texts >= 1, "a step needs at least one text");
  require(t.token_offsets != nullptr && t.adapter_offsets != nullptr && t.poolings != nullptr,
          kMissing);
  require(t.token_offsets[0] == 0 && t.adapter_offsets[0] == 0,
          "the offsets of a batch start at 0");
  for (int32_t text = 0; text < t.num_texts; text++) {
    check_text(text, file, limits);
    list_adapters(text);
    for (int32_t i = 0; i < length(text); i++) positions.push_back(i);
    longest_text = std::max(longest_text, length(text));
  }
  adapters.group(positions.size());
}

void EncoderStep::check_text(int32_t text, const EncoderFile& file,
                             const el_encoder_limits& limits) const {
  const EncoderHeader& shape = file.header();
  const int32_t begin = texts.token_offsets[text];
  const int32_t end = texts.token_offsets[text + 1];
  require(begin < end && end <= limits.max_step_tokens,
          "a step holds 1 to max_step_tokens tokens");
  require(end - begin <= static_cast<int32_t>(shape.max_context_tokens),
          "a text is longer than the model's context");
  require(texts.token_ids != nullptr, kMissing);
  for (int32_t i = begin; i < end; i++)
    require(texts.token_ids[i] >= 0 && texts.token_ids[i] < static_cast<int32_t>(shape.vocab_size),
            "a token id is outside the vocabulary");
  const int32_t pooling = texts.poolings[text];
  require(pooling >= 0 && pooling < EL_NUM_POOLINGS, "there is no such pooling");
  require(pooling != EL_POOL_POOLER || file.has_pooler(), "the model has no pooler");
}

void EncoderStep::list_adapters(int32_t text) {
  const int32_t first = texts.adapter_offsets[text];
  const int64_t count = int64_t{texts.adapter_offsets[text + 1]} - first;
  require(first >= 0 && count >= 0, "the offsets of a batch must not fall");
  if (count == 0) return;
  require(texts.adapter_slots != nullptr && texts.adapter_weights != nullptr, kMissing);
  adapters.add(first_row(text), length(text), texts.adapter_slots + first,
               texts.adapter_weights + first, static_cast<int32_t>(count));
}

}  // namespace edgelora
