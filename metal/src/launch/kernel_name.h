// A kernel's name and the source line that instantiates it from a template.
#pragma once

#include <initializer_list>
#include <string>

#include "cpu/kernels.h"

namespace octavo::launch {

using cpu::Element;

// "float", "half" or "bfloat"
std::string metal_type(Element element);

struct KernelName {
  std::string name;           // paged_attention_merge_half_128
  std::string instantiation;  // template [[host_name("paged_attention_merge_half_128")]] ...
};

KernelName kernel_name(const std::string& function, std::initializer_list<std::string> template_arguments);

}  // namespace octavo::launch
