// Helpers that every primitive's evaluation uses.
#pragma once

#include <functional>
#include <new>
#include <stdexcept>
#include <string>

#include "cpu/kernels.h"
#include "cpu/thread_pool.h"
#include "mlx/backend/cpu/encoder.h"
#include "mlx/mlx.h"
#include "mlx/primitives.h"

namespace octavo {

namespace mx = mlx::core;

// Gives an array the memory it is computed into. Where the system refuses it MLX leaves a null pointer and writes
// through it; this throws std::bad_alloc, MemoryError in Python.
inline void allocate(mx::array& a) {
  a.set_data(mx::allocator::malloc(a.nbytes()));
  if (a.buffer().ptr() == nullptr) {
    throw std::bad_alloc();
  }
}

inline cpu::Element element_of(const mx::array& a) {
  return a.dtype() == mx::float16    ? cpu::Element::float16
         : a.dtype() == mx::bfloat16 ? cpu::Element::bfloat16
                                     : cpu::Element::float32;
}

// Work that is worth waking another thread for, in numbers read or multiply-adds / 8.
constexpr int64_t kPieceOfWork = 32768;

// Queues kernel(args, begin, end) over [0, units) on the stream's thread, in pieces of at least kPieceOfWork.
// MLX keeps the buffers of inputs and outputs alive until the kernel ran.
template <typename Args>
void dispatch_kernel(mx::Stream stream, void (*kernel)(const Args&, int64_t, int64_t), const Args& args, int64_t units,
                     int64_t work_per_unit) {
  if (units == 0) {
    return;
  }
  int64_t piece = (kPieceOfWork + work_per_unit - 1) / work_per_unit;
  mx::cpu::get_command_encoder(stream).dispatch([kernel, args, units, piece] {
    cpu::thread_pool().run(units, piece, [&](int64_t begin, int64_t end) { kernel(args, begin, end); });
  });
}

[[noreturn]] inline void refuse_gpu(const char* op) {
  throw std::runtime_error(std::string("[") + op + "] runs on the CPU only");
}

}  // namespace octavo
