# The CUDA kernels, attention_variants/ops/cuda/kernels/*.cu, twice: by nvcc as the module lra_cuda, where LibTorch has CUDA,
# which the program loads where there is a driver; and, for tests, by the C++ compiler against tests/cuda_emulator.
file(GLOB cuda_kernels CONFIGURE_DEPENDS attention_variants/ops/cuda/kernels/*.cu)

if(TARGET torch_cuda)
  enable_language(CUDA)  # find_package(Torch) has chosen the architectures: CMAKE_CUDA_FLAGS
  add_library(lra_cuda_kernels OBJECT ${cuda_kernels})
  target_include_directories(lra_cuda_kernels PRIVATE ${CMAKE_SOURCE_DIR})
  # Registers that do not suffice, and arrays that are in none, are errors: their memory is slow.
  target_compile_options(lra_cuda_kernels PRIVATE -Xptxas -warn-spills,-warn-lmem-usage$<$<BOOL:${LRA_WERROR}>:$<COMMA>-Werror>)
  set_target_properties(lra_cuda_kernels PROPERTIES CUDA_ARCHITECTURES OFF POSITION_INDEPENDENT_CODE ON UNITY_BUILD OFF)
  if(CCACHE)
    set_target_properties(lra_cuda_kernels PROPERTIES CUDA_COMPILER_LAUNCHER ${CCACHE})
  endif()
  # What asks LibTorch's CUDA part for streams is compiled without nvcc.
  add_library(lra_cuda MODULE attention_variants/ops/cuda/current_stream.cpp $<TARGET_OBJECTS:lra_cuda_kernels>)
  set_target_properties(lra_cuda PROPERTIES PREFIX "" LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/bin
                        LINKER_LANGUAGE CXX)
  target_link_libraries(lra_cuda PRIVATE lra_torch torch_cuda_library c10_cuda torch::cudart)
  target_precompile_headers(lra_cuda REUSE_FROM lra_headers)
  set(LRA_CUDA_KERNELS ${CMAKE_BINARY_DIR}/bin/lra_cuda.so)
else()
  set(LRA_CUDA_KERNELS "")
  file(REMOVE ${CMAKE_BINARY_DIR}/bin/lra_cuda.so)  # of an earlier build with CUDA
endif()

# A source file has one language in a folder's targets, so the C++ compiler gets files that include the kernels'.
function(lra_emulated_kernels target)
  set(sources)
  foreach(kernel ${cuda_kernels})
    get_filename_component(name ${kernel} NAME_WE)
    set(source ${CMAKE_BINARY_DIR}/generated/cuda_emulated/${name}.cpp)
    file(GENERATE OUTPUT ${source} CONTENT "#include \"attention_variants/ops/cuda/kernels/${name}.cu\"\n")
    list(APPEND sources ${source})
  endforeach()
  file(GLOB emulator CONFIGURE_DEPENDS tests/cuda_emulator/*.cpp)
  add_library(${target} OBJECT ${sources} ${emulator})
  target_link_libraries(${target} PUBLIC lra_build)
  target_include_directories(${target} PUBLIC ${CMAKE_SOURCE_DIR}/tests)
  target_compile_definitions(${target} PUBLIC LRA_CUDA_EMULATOR)
  target_compile_options(${target} PUBLIC -Wno-unknown-pragmas PRIVATE $<$<CONFIG:Release>:-O2>)
  set_target_properties(${target} PROPERTIES UNITY_BUILD OFF)
endfunction()
