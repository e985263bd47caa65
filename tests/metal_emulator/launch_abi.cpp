// The launch logic behind a C function: what it decides, as lines of text.
#include <sstream>
#include <stdexcept>
#include <string>

#include "launch/attention_launch.h"
#include "launch/cache_update_launch.h"

using namespace octavo;
using namespace octavo::launch;

namespace {

const char* name_of(Buffer buffer) {
  switch (buffer) {
    case Buffer::pages: return "pages";
    case Buffer::values: return "values";
    case Buffer::slot_mapping: return "slot_mapping";
    case Buffer::q: return "q";
    case Buffer::key_pages: return "key_pages";
    case Buffer::value_pages: return "value_pages";
    case Buffer::block_table: return "block_table";
    case Buffer::context_lens: return "context_lens";
    case Buffer::query_start_locs: return "query_start_locs";
    case Buffer::sinks: return "sinks";
    case Buffer::out: return "out";
    case Buffer::partials: return "partials";
  }
  return "";
}

void describe(const Launch& launch, std::ostream& text) {
  text << "kernel " << launch.kernel << "\ninstantiation " << launch.instantiation;
  for (const Argument& argument : launch.arguments) {
    text << "argument " << name_of(argument.buffer) << " " << argument.written << "\n";
  }
  text << "params ";
  for (std::byte b : launch.params) {
    text << "0123456789abcdef"[static_cast<int>(b) >> 4] << "0123456789abcdef"[static_cast<int>(b) & 15];
  }
  text << "\ngrid " << launch.grid[0] << " " << launch.grid[1] << " " << launch.grid[2];
  text << "\ngroup " << launch.group[0] << " " << launch.group[1] << " " << launch.group[2];
  text << "\ngrid_counts_threads " << launch.grid_counts_threads << "\n";
}

std::string describe(const AttentionLaunches& plan) {
  std::ostringstream text;
  text << "partial_floats " << plan.partial_floats << "\n";
  for (const Launch& launch : plan.launches) {
    describe(launch, text);
  }
  return text.str();
}

std::string answer;

}  // namespace

extern "C" {

// The integers are the fields of CacheUpdateShape in order.
const char* describe_cache_update(const int* v) {
  CacheUpdateShape shape{static_cast<cpu::Element>(v[0]), static_cast<cpu::Element>(v[1]), v[2],
                         v[3], v[4], v[5], v[6], {v[7], v[8], v[9]}};
  answer = describe({launch_cache_update(shape), 0});
  return answer.c_str();
}

// The integers are those of AttentionShape in order, has_sinks last.
const char* describe_attention(const int* v, float scale, float soft_cap) {
  AttentionShape shape{static_cast<cpu::Element>(v[0]), static_cast<cpu::Element>(v[1]), v[2], v[3], v[4], v[5],
                       v[6], v[7], v[8], v[9], {v[10], v[11], v[12]}, v[13], scale, soft_cap, v[14] != 0};
  try {
    answer = describe(launch_attention(shape));
  } catch (const std::invalid_argument& refusal) {
    answer = std::string("refused ") + refusal.what();
  }
  return answer.c_str();
}
}
