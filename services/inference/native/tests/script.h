// What the check program can do with a packed model of at least 2 layers and 64 token contexts.
#pragma once

#include <string>

namespace edgelora::check {

// Writes the logits of every step of a fixed script, float32.
void run_script(const std::string& model, const std::string& output);

// Every refusal of the interface, and that nothing changes by being refused.
void run_refusals(const std::string& model);

// Adapters whose products overflow.
void run_overflow(const std::string& model);

// Loads an encoded adapter, of at most rank 64, and writes what its slot then holds, float32: for
// each module, layer by layer, scaling, A and B.
void run_encoded(const std::string& model, const std::string& file, const std::string& output);

// The same with every byte of what describes the payload changed, and with other lengths: it is
// refused, or runs.
void run_damaged(const std::string& model, const std::string& file);

// Decodes while a second thread puts other adapters into the slots without a pause: every row has
// the bits of the adapter that was in its slot. One of them is `file`, an encoded one of at most
// rank 8. Ends after `num_rows` rows with each of them.
void run_churn(const std::string& model, int num_rows, const std::string& file);

// Encodes texts of a packed encoder with a context of at least 33 tokens, alone, in company and with
// other numbers of threads, and writes their vectors, float32.
void run_encoder(const std::string& model, const std::string& output);

// Every refusal of the encoder, and that nothing changes by being refused.
void run_encoder_refusals(const std::string& model);

// Changes the number of threads `num_steps` times between steps; every step has the same bits.
void run_threads(const std::string& model, int num_steps);

}  // namespace edgelora::check
