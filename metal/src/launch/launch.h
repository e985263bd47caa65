// What to run on the GPU, as plain data: the Metal side binds the arguments and dispatches, nothing more.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

namespace octavo::launch {

// The arrays of an op. `partials` is scratch memory between two launches.
enum class Buffer {
  pages,
  values,
  slot_mapping,
  q,
  key_pages,
  value_pages,
  block_table,
  context_lens,
  query_start_locs,
  sinks,
  out,
  partials,
};

using Size = std::array<uint32_t, 3>;

// Numbers from one token, head, number of [T, H, D] to the next.
struct Strides {
  int token;
  int head;
  int number;
};

struct Argument {
  Buffer buffer;
  bool written = false;
};

struct Launch {
  std::string kernel;         // its name, and that of its library
  std::string instantiation;  // the line of source that makes the kernel from its template
  std::vector<Argument> arguments;  // of buffer(0), buffer(1), ...
  std::vector<std::byte> params;    // of the buffer after the last argument
  Size grid;                        // threads or threadgroups
  Size group;                       // threads of a threadgroup
  bool grid_counts_threads = false;
};

template <typename Params>
std::vector<std::byte> bytes_of(const Params& params) {
  std::vector<std::byte> bytes(sizeof(Params));
  std::memcpy(bytes.data(), &params, sizeof(Params));
  return bytes;
}

}  // namespace octavo::launch
