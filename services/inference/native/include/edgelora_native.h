// The C interface of the native engine core. Everything a caller passes is checked; a failed call
// returns a negative status and writes one line of text into `error`.
#ifndef EDGELORA_NATIVE_H
#define EDGELORA_NATIVE_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define EL_PUBLIC __attribute__((visibility("default")))

typedef struct el_engine el_engine;

typedef struct {
  int32_t num_kv_blocks;  // blocks of EL_BLOCK_TOKENS tokens
  int32_t max_loras;      // adapter slots
  int32_t max_lora_rank;
  int32_t max_step_tokens;  // most tokens of one step
  int32_t num_threads;      // 1 or more, the calling one among them
  int32_t kv_cache_int8;    // not 0: keys and values in 8 bits instead of half precision
} el_limits;

enum { EL_BLOCK_TOKENS = 16 };

typedef struct {
  int32_t vocab_size;
  int32_t hidden_size;
  int32_t num_layers;
  int32_t max_context_tokens;
  int64_t weights_bytes;
  int64_t kv_cache_bytes;
  int64_t adapter_slots_bytes;
} el_description;

// One step over a ragged batch. Chunk i covers tokens [token_offsets[i], token_offsets[i + 1]).
typedef struct {
  int32_t num_chunks;
  const int32_t* token_ids;
  const int32_t* token_offsets;    // num_chunks + 1
  const int32_t* start_positions;  // num_chunks: tokens already in the KV cache
  const int32_t* block_tables;
  const int32_t* block_offsets;  // num_chunks + 1
  const int32_t* adapter_slots;
  const float* adapter_weights;
  const int32_t* adapter_offsets;  // num_chunks + 1
  const uint8_t* needs_logits;     // num_chunks
} el_batch;

// One module's factors. `module` is one of EL_Q .. EL_DOWN.
typedef struct {
  int32_t layer;
  int32_t module;
  int32_t rank;
  int32_t in_features;
  int32_t out_features;
  float scaling;
  const float* lora_a;  // [rank, in_features]
  const float* lora_b;  // [out_features, rank]
} el_lora_pair;

enum { EL_Q, EL_K, EL_V, EL_O, EL_GATE, EL_UP, EL_DOWN, EL_NUM_MODULES };

enum { EL_MAX_TOP_LOGPROBS = 20 };

// How to choose a token from each of some rows of logits. Arrays hold one value for each row.
typedef struct {
  int32_t num_rows;
  int32_t num_tokens;     // logits of a row that count
  int64_t row_stride;     // floats from one row to the next
  const float* logits;
  const float* temperature;  // 0: the likeliest token
  const int32_t* top_k;      // 0: all tokens
  const float* top_p;        // 1: all tokens
  const float* min_p;        // 0: all tokens
  const double* draws;       // random numbers in [0, 1)
  const float* repetition_penalty;
  const float* presence_penalty;
  const float* frequency_penalty;
  const int32_t* penalty_offsets;  // num_rows + 1
  const int32_t* penalty_ids;      // tokens of prompt and output, each once
  const int32_t* penalty_counts;   // times in the output
  const int32_t* num_logprobs;     // likeliest tokens to tell of; negative: no log probability
  // Tokens that may be chosen: bit i % 32 of word i / 32, (num_tokens + 31) / 32 words. Null: all.
  const uint32_t* const* masks;
  // Results.
  int32_t* token_ids;      // negative: the row holds what is not finite, or its mask is empty
  double* logprobs;        // of the chosen token, where wanted
  int32_t* top_ids;        // [num_rows][EL_MAX_TOP_LOGPROBS], best first
  double* top_logprobs;    // the same shape
} el_sampling;

// Name of the instruction set in use, or NULL with `error` set when EDGELORA_ISA names one that
// is unknown or that this processor lacks.
EL_PUBLIC const char* el_instruction_set(char* error, size_t error_size);

EL_PUBLIC el_engine* el_open(const char* packed_file, const el_limits* limits, char* error,
                   size_t error_size);
EL_PUBLIC void el_close(el_engine* engine);
EL_PUBLIC el_description el_describe(const el_engine* engine);

// Both write an adapter into an empty slot and return the bytes it holds there.
EL_PUBLIC int64_t el_load_adapter(el_engine* engine, int32_t slot, const el_lora_pair* pairs,
                    int32_t num_pairs, char* error, size_t error_size);
// `data` is a whole file in the form of docs/codec.md; it is not used after the call.
EL_PUBLIC int64_t el_load_encoded(el_engine* engine, int32_t slot, const uint8_t* data, size_t size,
                    char* error, size_t error_size);
// Empties a slot. With `keep_pages` its memory stays for the next load, else the system has it back.
EL_PUBLIC int el_unload_adapter(el_engine* engine, int32_t slot, int32_t keep_pages, char* error,
                    size_t error_size);

// Between steps: how many of the threads compute from the next one on, 1 to el_limits.num_threads.
// The others sleep until they are wanted again. Any number gives the same bits.
EL_PUBLIC int el_set_threads(el_engine* engine, int32_t num_threads, char* error,
                             size_t error_size);

// Writes one row of vocab_size logits for each chunk with needs_logits, in order.
EL_PUBLIC int el_forward(el_engine* engine, const el_batch* batch, float* logits, char* error,
               size_t error_size);

// Chooses a token from each row. A row's result depends on nothing but the row and its settings.
EL_PUBLIC int el_sample(el_engine* engine, const el_sampling* sampling, char* error,
                        size_t error_size);

#ifdef __cplusplus
}
#endif

#endif
