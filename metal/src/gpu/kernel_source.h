// Made by the build from kernels/ (kernels/embed.py).
#pragma once

namespace octavo::gpu {

extern const char* const kKernelSource;
extern const char* const kLibraryPrefix;  // version and hash of the source: another source is another library

}  // namespace octavo::gpu
