// native_check script MODEL OUTPUT | refusals MODEL | overflow MODEL | encoded MODEL FILE OUTPUT |
//   damaged MODEL FILE | churn MODEL ROWS FILE | threads MODEL STEPS |
//   encoder ENCODER OUTPUT | encoder-refusals ENCODER
#include <cstdio>
#include <string>
#include <vector>

#include "script.h"

int main(int argc, char** argv) {
  using namespace edgelora::check;
  const std::vector<std::string> words(argv + 1, argv + argc);
  if (words.size() == 3 && words[0] == "script") {
    run_script(words[1], words[2]);
  } else if (words.size() == 2 && words[0] == "refusals") {
    run_refusals(words[1]);
  } else if (words.size() == 2 && words[0] == "overflow") {
    run_overflow(words[1]);
  } else if (words.size() == 4 && words[0] == "encoded") {
    run_encoded(words[1], words[2], words[3]);
  } else if (words.size() == 3 && words[0] == "damaged") {
    run_damaged(words[1], words[2]);
  } else if (words.size() == 4 && words[0] == "churn") {
    run_churn(words[1], std::stoi(words[2]), words[3]);
  } else if (words.size() == 3 && words[0] == "threads") {
    run_threads(words[1], std::stoi(words[2]));
  } else if (words.size() == 3 && words[0] == "encoder") {
    run_encoder(words[1], words[2]);
  } else if (words.size() == 2 && words[0] == "encoder-refusals") {
    run_encoder_refusals(words[1]);
  } else {
    std::fputs(
        "usage: native_check script MODEL OUTPUT | refusals MODEL | overflow MODEL | "
        "encoded MODEL FILE OUTPUT | damaged MODEL FILE | churn MODEL ROWS FILE | "
        "threads MODEL STEPS | encoder ENCODER OUTPUT | encoder-refusals ENCODER\n",
        stderr);
    return 2;
  }
  return 0;
}
