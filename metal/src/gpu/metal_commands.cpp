// The only file that knows Metal. The source is compiled by the system at the first use of a kernel.
#include <stdexcept>
#include <string>

#include "gpu/commands.h"
#include "gpu/kernel_source.h"
#include "mlx/backend/metal/device.h"

namespace octavo::gpu {

namespace {

MTL::ComputePipelineState* pipeline(mx::metal::Device& device, const launch::Launch& launch) {
  MTL::Library* library = device.get_library(
      kLibraryPrefix + launch.kernel, [&] { return std::string(kKernelSource) + launch.instantiation; });
  MTL::ComputePipelineState* kernel = device.get_kernel(launch.kernel, library);
  size_t threads = size_t{launch.group[0]} * launch.group[1] * launch.group[2];
  if (threads > kernel->maxTotalThreadsPerThreadgroup()) {
    throw std::runtime_error("[" + launch.kernel + "] needs " + std::to_string(threads) +
                             " threads a threadgroup, this GPU gives it " +
                             std::to_string(kernel->maxTotalThreadsPerThreadgroup()));
  }
  return kernel;
}

MTL::Size size_of(const launch::Size& size) {
  return MTL::Size(size[0], size[1], size[2]);
}

}  // namespace

void run(mx::Stream stream, const std::vector<launch::Launch>& launches, const Arrays& arrays) {
  mx::metal::Device& device = mx::metal::device(stream.device);
  mx::metal::CommandEncoder& encoder = mx::metal::get_command_encoder(stream);
  for (const launch::Launch& launch : launches) {
    encoder.set_compute_pipeline_state(pipeline(device, launch));
    int index = 0;
    for (const launch::Argument& argument : launch.arguments) {
      mx::array array = arrays.at(argument.buffer);
      if (argument.written) {
        encoder.set_output_array(array, index++);
      } else {
        encoder.set_input_array(array, index++);
      }
    }
    encoder.set_bytes(launch.params.data(), static_cast<int>(launch.params.size()), index);
    if (launch.grid_counts_threads) {
      encoder.dispatch_threads(size_of(launch.grid), size_of(launch.group));
    } else {
      encoder.dispatch_threadgroups(size_of(launch.grid), size_of(launch.group));
    }
  }
}

mx::array scratch(int64_t floats, mx::Stream stream) {
  mx::array memory({static_cast<int>(floats)}, mx::float32, nullptr, {});
  memory.set_data(mx::allocator::malloc(memory.nbytes()));
  mx::metal::get_command_encoder(stream).add_temporary(memory);
  return memory;
}

}  // namespace octavo::gpu
