// What the ops ask of the GPU. metal_commands.cpp answers on a Mac; where there is no Metal, no_metal_commands.cpp
// refuses. Everything else of the ops' GPU side is compiled and tested everywhere.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "launch/launch.h"
#include "mlx/mlx.h"

namespace octavo::gpu {

namespace mx = mlx::core;

using Arrays = std::map<launch::Buffer, mx::array>;

// Encodes the launches in order; MLX puts barriers where one reads what another wrote.
// Throws std::runtime_error where a kernel does not compile or does not fit the GPU.
void run(mx::Stream stream, const std::vector<launch::Launch>& launches, const Arrays& arrays);

// Memory of the commands encoded so far and next; not initialised.
mx::array scratch(int64_t floats, mx::Stream stream);

}  // namespace octavo::gpu
