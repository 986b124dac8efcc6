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

// Decodes while a second thread puts other adapters into the slots without a pause: every row has
// the bits of the adapter that was in its slot. Ends after `num_rows` rows with each of them.
void run_churn(const std::string& model, int num_rows);

}  // namespace edgelora::check
