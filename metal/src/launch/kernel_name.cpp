#include "launch/kernel_name.h"

namespace octavo::launch {

std::string metal_type(Element element) {
  switch (element) {
    case Element::float16:
      return "half";
    case Element::bfloat16:
      return "bfloat";
    case Element::float32:
      break;
  }
  return "float";
}

KernelName kernel_name(const std::string& function, std::initializer_list<std::string> template_arguments) {
  std::string name = function;
  std::string list;
  for (const std::string& argument : template_arguments) {
    name += "_" + argument;
    list += (list.empty() ? "" : ", ") + argument;
  }
  std::string instance = function + "<" + list + ">";
  return {name, "template [[host_name(\"" + name + "\")]] [[kernel]] decltype(" + instance + ") " + instance + ";\n"};
}

}  // namespace octavo::launch
