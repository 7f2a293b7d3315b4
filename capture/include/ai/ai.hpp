#pragma once

#include "ai/activation.hpp"
#include "ai/backend.hpp"
#include "ai/capture.hpp"
#include "ai/direct.hpp"
#include "ai/executable.hpp"
#include "ai/gemm.hpp"
#include "ai/memory.hpp"
#include "ai/program.hpp"
#include "ai/status.hpp"
#include "ai/step.hpp"
#include "ai/tensor.hpp"
