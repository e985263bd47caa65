// Which copy of the kernels runs: chosen once from what the processor can do.
#pragma once

#include <string>
#include <vector>

#include "cpu/kernels.h"

namespace octavo::cpu {

// Levels that were built and that this processor has, weakest first.
std::vector<std::string> instruction_levels();

std::string instruction_level();

// Throws std::invalid_argument for a level that instruction_levels() does not hold.
void set_instruction_level(const std::string& name);

const Kernels& kernels();

}  // namespace octavo::cpu
