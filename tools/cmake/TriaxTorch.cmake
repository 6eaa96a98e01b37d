# SPDX-License-Identifier: Apache-2.0
# LibTorch from the PyPI wheel, found without find_package(Torch), which stops
# on a CUDA wheel where no CUDA toolkit is. Sets the target triax_torch.

set(TRIAX_TORCH_DIR "" CACHE PATH "the wheel's torch folder")
if(NOT TRIAX_TORCH_DIR)
  file(GLOB candidates
       ${CMAKE_SOURCE_DIR}/.venv/lib/python3*/site-packages/torch)
  if(NOT candidates)
    execute_process(
      COMMAND python3 -c "import importlib.util as u, pathlib as p; s = u.find_spec('torch'); print(p.Path(s.origin).parent if s else '')"
      OUTPUT_VARIABLE candidates OUTPUT_STRIP_TRAILING_WHITESPACE)
  endif()
  list(GET candidates 0 TRIAX_TORCH_DIR)
endif()
if(NOT EXISTS ${TRIAX_TORCH_DIR}/lib/libtorch_cpu.so)
  message(FATAL_ERROR "LibTorch was not found; run `make setup`, or set "
          "TRIAX_TORCH_DIR to the torch folder of the wheel torch==2.13.*")
endif()
file(STRINGS ${TRIAX_TORCH_DIR}/version.py version_line
     REGEX "^__version__ = ")
string(REGEX REPLACE ".*'([^']+)'.*" "\\1" TRIAX_TORCH_VERSION "${version_line}")
if(NOT TRIAX_TORCH_VERSION MATCHES "^2\\.13\\.")
  message(FATAL_ERROR "LibTorch ${TRIAX_TORCH_VERSION} in ${TRIAX_TORCH_DIR}: "
          "triax needs 2.13 (its ABI changes with each minor version)")
endif()
message(STATUS "LibTorch ${TRIAX_TORCH_VERSION} in ${TRIAX_TORCH_DIR}")

add_library(triax_torch INTERFACE)
target_include_directories(triax_torch SYSTEM INTERFACE
  ${TRIAX_TORCH_DIR}/include ${TRIAX_TORCH_DIR}/include/torch/csrc/api/include)
# Without NDEBUG RecordFunction has another layout than the wheel's.
target_compile_definitions(triax_torch INTERFACE NDEBUG)
# A CUDA wheel's libraries name others that only exist with a toolkit.
target_link_options(triax_torch INTERFACE
  -Wl,--unresolved-symbols=ignore-in-shared-libs
  -Wl,-rpath,${TRIAX_TORCH_DIR}/lib -Wl,--no-as-needed)
target_link_libraries(triax_torch INTERFACE
  ${TRIAX_TORCH_DIR}/lib/libtorch_cpu.so ${TRIAX_TORCH_DIR}/lib/libc10.so
  Threads::Threads)

# One precompiled header for every target that uses LibTorch.
triax_add_pch(triax_torch_pch torch_pch.h)
target_link_libraries(triax_torch_pch PUBLIC triax_torch)

function(triax_use_torch target)
  target_link_libraries(${target} PUBLIC triax_torch)
  target_precompile_headers(${target} REUSE_FROM triax_torch_pch)
  target_compile_options(${target} PRIVATE -fpch-preprocess)
endfunction()
