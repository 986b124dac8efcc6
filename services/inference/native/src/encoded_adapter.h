// The encoded form of an adapter (docs/codec.md), read as hostile input.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

namespace edgelora {

// Two runs of one component: its row of A, and what it gives to each output.
struct EncodedComponent {
  uint16_t scale;  // half
  uint8_t a_bits;
  uint8_t b_bits;
  const uint8_t* a;
  const uint8_t* b;
};

struct EncodedModule {
  int layer;
  int module;
  int in;
  int out;
  float scaling;
  std::vector<EncodedComponent> components;
};

// A whole file. What the look-ups depend on is copied: if the bytes change under it, levels become
// others and nothing else happens.
class EncodedAdapter {
 public:
  // Checks every rule of the format but those on the base model; throws Error. `data` has to stay.
  EncodedAdapter(const uint8_t* data, size_t size);

  const std::vector<EncodedModule>& modules() const { return modules_; }

  // Writes one component's row of A into blocks as in lora_slots.h.
  void write_a_row(const EncodedModule& module, int row, uint8_t* a) const;
  // Writes four components' values of B, from `first` on, into the blocks; those beyond the rank
  // are zeros.
  void write_b_rows(const EncodedModule& module, int first, uint8_t* b) const;

 private:
  static constexpr int kMaxBits = 8;
  // Levels plus 128, as the slots hold them.
  struct Codebook {
    int bits = 0;  // 0: there is none
    int window = 0;
    uint8_t levels[256] = {};
  };
  class Reader;

  void read_codebooks(Reader& reader, uint32_t count);
  void read_modules(Reader& reader, uint32_t count, uint32_t num_components);
  void read_components(Reader& reader);
  void read_payload(Reader& reader);
  const Codebook& codebook(int factor, int bits) const { return codebooks_[factor][bits]; }

  Codebook codebooks_[2][kMaxBits + 1];  // [factor: 0 is A][bits]
  std::vector<EncodedModule> modules_;
};

}  // namespace edgelora
