// SPDX-License-Identifier: Apache-2.0
// Trains a byte-level GPT once for each recipe and prints how they compare.
#include <iostream>

#include "char_gpt/program.hpp"

int main(int argc, char** argv) { return char_gpt::run(argc, argv, std::cout, std::cerr); }
