// Where there is no Metal: MLX has no GPU stream there, so only a mistake comes here.
#include <stdexcept>

#include "gpu/commands.h"

namespace octavo::gpu {

namespace {

[[noreturn]] void refuse() {
  throw std::runtime_error("metal: this build has no GPU kernels; evaluate on the CPU stream");
}

}  // namespace

void run(mx::Stream, const std::vector<launch::Launch>&, const Arrays&) {
  refuse();
}

mx::array scratch(int64_t, mx::Stream) {
  refuse();
}

}  // namespace octavo::gpu
