# For a wheel: sets Torch_DIR to the torch of the Python that builds it, Python3_EXECUTABLE, and LRA_CUDA to OFF where that is
# AUTO and there is no nvcc of the CUDA that this torch was built with. tests/checks/python_torch runs it by itself (cmake -P).

# A build in an environment of its own sees no torch, but runs the Python that has it.
execute_process(
  COMMAND ${Python3_EXECUTABLE} -c "
import os, re, site, sys, sysconfig
folders = [sysconfig.get_path('purelib'), sysconfig.get_path('platlib'), site.getusersitepackages()]
folders = list(dict.fromkeys(filter(os.path.isdir, folders + site.getsitepackages() + sys.path)))
found = [f for f in folders if os.path.exists(f + '/torch/share/cmake/Torch/TorchConfig.cmake')]
version = open(found[0] + '/torch/version.py').read() if found else ''
cuda = re.search('^cuda[^=]*= *.([0-9]+)', version, re.MULTILINE)
release = re.search('^__version__ *= *.([0-9]+[.][0-9]+)', version, re.MULTILINE)
print(found[0] if found else '', cuda[1] if cuda else '', release[1] if release else '', ', '.join(folders), sep='|', end='')"
  OUTPUT_VARIABLE found RESULT_VARIABLE failed)
if(failed OR NOT found MATCHES "^([^|]*)[|]([0-9]*)[|]([0-9.]*)[|](.*)$")
  message(FATAL_ERROR "${Python3_EXECUTABLE} cannot say where its packages are (above: why); it printed '${found}'")
endif()
set(site_packages ${CMAKE_MATCH_1})
set(torch_cuda ${CMAKE_MATCH_2})
set(torch_release ${CMAKE_MATCH_3})
if(NOT site_packages)
  message(FATAL_ERROR "There is no torch in ${CMAKE_MATCH_4}: pip install torch==2.11.0 first. Where it is installed, the "
                      "build is in an environment that hides it: uv with --no-build-isolation, build with --no-isolation")
endif()
# The package asks pip for it, which would put it in the place of the one that this build was made with.
if(NOT torch_release STREQUAL "2.11")
  message(FATAL_ERROR "The torch in ${site_packages} is version '${torch_release}', and the package needs 2.11: "
                      "pip install torch==2.11.0 first")
endif()
set(Torch_DIR ${site_packages}/torch/share/cmake/Torch)
if(LRA_CUDA STREQUAL "AUTO")
  find_program(nvcc nvcc PATHS /usr/local/cuda/bin)
  set(nvcc_says "")
  if(nvcc)
    execute_process(COMMAND ${nvcc} --version OUTPUT_VARIABLE nvcc_says ERROR_QUIET)
  endif()
  if(NOT torch_cuda OR NOT nvcc_says MATCHES "release ${torch_cuda}[.]")
    set(LRA_CUDA OFF)
  endif()
endif()
if(CMAKE_SCRIPT_MODE_FILE)
  message(STATUS "Torch_DIR=${Torch_DIR} LRA_CUDA=${LRA_CUDA}")
endif()
