// The C interface of the native encoder: BERT-type models that turn whole texts into vectors. The
// rules of edgelora_native.h hold here too.
#ifndef EDGELORA_ENCODER_H
#define EDGELORA_ENCODER_H

#include "edgelora_native.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct el_encoder el_encoder;

typedef struct {
  int32_t max_loras;  // adapter slots
  int32_t max_lora_rank;
  int32_t max_step_tokens;  // most tokens of one step
  int32_t num_threads;      // 1 or more, the calling one among them
} el_encoder_limits;

typedef struct {
  int32_t vocab_size;
  int32_t hidden_size;
  int32_t num_layers;
  int32_t max_context_tokens;
  int32_t has_pooler;
  int64_t weights_bytes;
  int64_t adapter_slots_bytes;
} el_encoder_description;

// Modules of el_lora_pair.
enum {
  EL_QUERY,
  EL_KEY,
  EL_VALUE,
  EL_ATTENTION_OUTPUT,
  EL_INTERMEDIATE,
  EL_OUTPUT,
  EL_NUM_ENCODER_MODULES
};

// How the vectors of a text's tokens become one: their mean, the first one, or the first one through
// the model's pooler.
enum { EL_POOL_MEAN, EL_POOL_FIRST, EL_POOL_POOLER, EL_NUM_POOLINGS };

// Whole texts. Text i is the tokens [token_offsets[i], token_offsets[i + 1]).
typedef struct {
  int32_t num_texts;
  const int32_t* token_ids;
  const int32_t* token_offsets;  // num_texts + 1
  const int32_t* adapter_slots;
  const float* adapter_weights;
  const int32_t* adapter_offsets;  // num_texts + 1
  const int32_t* poolings;         // num_texts
} el_texts;

EL_PUBLIC el_encoder* el_encoder_open(const char* packed_file, const el_encoder_limits* limits,
                                      char* error, size_t error_size);
EL_PUBLIC void el_encoder_close(el_encoder* encoder);
EL_PUBLIC el_encoder_description el_encoder_describe(const el_encoder* encoder);

// Writes an adapter into an empty slot and returns the bytes it holds there.
EL_PUBLIC int64_t el_encoder_load(el_encoder* encoder, int32_t slot, const el_lora_pair* pairs,
                                  int32_t num_pairs, char* error, size_t error_size);
EL_PUBLIC int el_encoder_unload(el_encoder* encoder, int32_t slot, char* error, size_t error_size);

// Writes one vector of hidden_size for each text. A text's vector depends on nothing but the text
// and its adapters; one whose values left the finite numbers is all NaN.
EL_PUBLIC int el_encode(el_encoder* encoder, const el_texts* texts, float* vectors, char* error,
                        size_t error_size);

#ifdef __cplusplus
}
#endif

#endif
