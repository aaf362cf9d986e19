/* The types of Sinter's C ABI: handles, statuses, constants. sinter.h includes this header and
 * states the conventions. */
#ifndef SINTER_SINTER_TYPES_H_
#define SINTER_SINTER_TYPES_H_

#include <stddef.h>
#include <stdint.h>

#if defined(__GNUC__)
#define SINTER_API __attribute__((visibility("default")))
#define SINTER_DEPRECATED __attribute__((deprecated))
#else
#define SINTER_API
#define SINTER_DEPRECATED
#endif

/* The start of an option struct: `sinter_norm_options norm = SINTER_INIT(sinter_norm_options);` */
#ifdef __cplusplus
template <typename T>
inline T sinter_init() {
  T value = T();
  value.struct_size = (uint32_t)sizeof(T);
  return value;
}
#define SINTER_INIT(type) sinter_init<type>()
#else
#define SINTER_INIT(type) \
  { .struct_size = (uint32_t)sizeof(type) }
#endif

#ifdef __cplusplus
extern "C" {
#endif

typedef struct sinter_context
    sinter_context; /* one device or target: caches, configuration, counters */
typedef struct sinter_chain
    sinter_chain; /* an operator DAG: a builder until finished, then immutable */
typedef struct sinter_plan
    sinter_plan; /* a chain prepared for a bucket of M, kernels loaded; immutable */
typedef struct sinter_binding sinter_binding; /* a plan bound to buffers; immutable */
typedef struct sinter_cancel sinter_cancel;   /* a switch that ends a long call */
typedef struct sinter_pending sinter_pending; /* a prepare under way */
typedef struct sinter_search sinter_search;   /* what a prepare would choose; immutable */
typedef struct sinter_slot sinter_slot;       /* a place for the best plan so far */
typedef struct sinter_error sinter_error;     /* what went wrong; immutable */

/* The caller's CUstream or cudaStream_t; NULL is the legacy default stream. */
typedef struct CUstream_st* sinter_stream;
/* A device address: CUdeviceptr or a cudaMalloc pointer. Buffers are aligned to 16 bytes. */
typedef uint64_t sinter_device_ptr;

/* The result of a call: 1 to 16 are the codes of gRPC and Abseil. Numbers are never reused. */
typedef int32_t sinter_status;
enum {
  SINTER_OK = 0,
  SINTER_CANCELLED = 1,
  SINTER_UNKNOWN = 2,
  SINTER_INVALID_ARGUMENT = 3,
  SINTER_DEADLINE_EXCEEDED = 4,
  SINTER_NOT_FOUND = 5,
  SINTER_ALREADY_EXISTS = 6,
  SINTER_PERMISSION_DENIED = 7,
  SINTER_RESOURCE_EXHAUSTED = 8,
  SINTER_FAILED_PRECONDITION = 9,
  SINTER_ABORTED = 10,
  SINTER_OUT_OF_RANGE = 11,
  SINTER_UNIMPLEMENTED = 12,
  SINTER_INTERNAL = 13,
  SINTER_UNAVAILABLE = 14,
  SINTER_DATA_LOSS = 15,
  SINTER_UNAUTHENTICATED = 16,
  SINTER_ERROR_COMPILE_FAILED = 100, /* the run-time compiler refused generated source */
  SINTER_ERROR_NO_LEGAL_PLAN = 101,  /* no kernel family takes this chain */
  SINTER_ERROR_DRIVER = 102,         /* a CUDA driver call failed: sinter_error_get_driver_result */
  SINTER_ERROR_CACHE_CORRUPT = 103, /* from explicit verification only; a damaged entry is a miss */
  SINTER_ERROR_STREAM_CAPTURING =
      104,                      /* not legal while the stream captures; the capture stays valid */
  SINTER_ERROR_CACHE_MISS = 105 /* must-hit was asked for and no tier had a usable entry */
};

/* Element types. f32 accumulation everywhere; only a cast rounds. */
typedef int32_t sinter_dtype;
enum {
  SINTER_DTYPE_F32 = 1,
  SINTER_DTYPE_F16 = 2,
  SINTER_DTYPE_BF16 = 3,
  SINTER_DTYPE_S32 = 4,
  SINTER_DTYPE_PRED = 5, /* one byte, 0 or 1 */
  /* 8-bit float of the OCP: 4 exponent bits, 3 of mantissa, no infinity, at most 448, NaN is 0x7f
   * and 0xff. Can only be cast, moved and multiplied; a cast to it saturates. */
  SINTER_DTYPE_E4M3 = 6,
  SINTER_DTYPE_S8 = 7, /* as e4m3: can only be cast, moved and multiplied */
  SINTER_DTYPE_S64 = 8 /* only for ids of gathers and scatters: inputs, and views of them */
};

/* Functions of one operand, element by element. */
typedef int32_t sinter_unary;
enum {
  SINTER_UNARY_NEG = 1,         /* -x */
  SINTER_UNARY_ABS = 2,         /* |x| */
  SINTER_UNARY_EXP = 3,         /* e^x */
  SINTER_UNARY_LOG = 4,         /* natural logarithm */
  SINTER_UNARY_SQRT = 5,        /* square root */
  SINTER_UNARY_RSQRT = 6,       /* 1 / sqrt(x) */
  SINTER_UNARY_TANH = 7,        /* hyperbolic tangent */
  SINTER_UNARY_ERF = 8,         /* error function */
  SINTER_UNARY_SIGMOID = 9,     /* 1 / (1 + e^-x) */
  SINTER_UNARY_RELU = 10,       /* max(x, 0); NaN stays NaN */
  SINTER_UNARY_RECIPROCAL = 11, /* 1 / x */
  SINTER_UNARY_SQUARE = 12,     /* x * x */
  SINTER_UNARY_SIN = 13,        /* sine */
  SINTER_UNARY_COS = 14,        /* cosine */
  SINTER_UNARY_FLOOR = 15,      /* the largest integer that is not above x */
  SINTER_UNARY_NOT = 16,        /* pred only */
  SINTER_UNARY_CEIL_POW2 = 17,  /* the smallest power of two that is not less, and 2^-126 or more */
  SINTER_UNARY_LOG1P = 18,      /* log(1 + x) */
  SINTER_UNARY_EXPM1 = 19,      /* e^x - 1 */
  SINTER_UNARY_CEIL = 20,       /* the smallest integer that is not below x */
  SINTER_UNARY_ROUND = 21,      /* to the nearest integer, halves to the even one */
  SINTER_UNARY_TRUNC = 22,      /* to the nearest integer that is not larger in magnitude */
  SINTER_UNARY_TAN = 23,        /* tangent */
  SINTER_UNARY_ASIN = 24,       /* inverse sine */
  SINTER_UNARY_ACOS = 25,       /* inverse cosine */
  SINTER_UNARY_ATAN = 26,       /* inverse tangent */
  SINTER_UNARY_SINH = 27,       /* hyperbolic sine */
  SINTER_UNARY_COSH = 28,       /* hyperbolic cosine */
  SINTER_UNARY_ASINH = 29,      /* inverse hyperbolic sine */
  SINTER_UNARY_ACOSH = 30,      /* inverse hyperbolic cosine */
  SINTER_UNARY_ATANH = 31,      /* inverse hyperbolic tangent */
  SINTER_UNARY_ERFC = 32,       /* 1 - erf(x), also where erf(x) rounds to 1 */
  SINTER_UNARY_EXP2 = 33,       /* 2^x */
  SINTER_UNARY_LOG2 = 34,       /* logarithm to base 2 */
  SINTER_UNARY_LOG10 = 35       /* logarithm to base 10 */
};

/* Functions of two operands, element by element. */
typedef int32_t sinter_binary;
enum {
  SINTER_BINARY_ADD = 1,
  SINTER_BINARY_SUB = 2,
  SINTER_BINARY_MUL = 3,
  SINTER_BINARY_DIV = 4, /* floating only */
  SINTER_BINARY_MAX = 5, /* a NaN operand gives NaN */
  SINTER_BINARY_MIN = 6,
  SINTER_BINARY_POW = 7, /* floating only */
  SINTER_BINARY_AND = 8, /* pred only */
  SINTER_BINARY_OR = 9,  /* pred only */
  /* Floating only: */
  SINTER_BINARY_FMOD = 10,     /* the rest a - b trunc(a / b), exact, with a's sign */
  SINTER_BINARY_COPYSIGN = 11, /* |a| with b's sign, which -0 and NaN have too */
  SINTER_BINARY_ATAN2 = 12,    /* the angle of the point (b, a), from -pi to pi */
  SINTER_BINARY_HYPOT = 13     /* sqrt(a^2 + b^2), infinite if a or b is */
};

/* Comparisons, element by element; they give pred. */
typedef int32_t sinter_compare;
enum {
  SINTER_COMPARE_EQ = 1,
  SINTER_COMPARE_NE = 2,
  SINTER_COMPARE_LT = 3,
  SINTER_COMPARE_LE = 4,
  SINTER_COMPARE_GT = 5,
  SINTER_COMPARE_GE = 6
};

/* Reductions over axes. */
typedef int32_t sinter_reduce;
enum {
  SINTER_REDUCE_SUM = 1,
  SINTER_REDUCE_MAX = 2,
  SINTER_REDUCE_MIN = 3,
  SINTER_REDUCE_MEAN = 4
};

/* Activations, of a GEMM or as an op by themselves. */
typedef int32_t sinter_activation;
enum {
  SINTER_ACTIVATION_IDENTITY = 0,
  SINTER_ACTIVATION_RELU = 1,      /* max(x, 0); NaN stays NaN */
  SINTER_ACTIVATION_GELU_TANH = 2, /* 0.5 x (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))) */
  SINTER_ACTIVATION_GELU_ERF = 3,  /* 0.5 x (1 + erf(x / sqrt 2)) */
  SINTER_ACTIVATION_SILU = 4       /* x * sigmoid(x) */
};

/* How a weight lies in memory. 0 means SINTER_LAYOUT_OI. */
typedef int32_t sinter_layout;
enum {
  SINTER_LAYOUT_OI = 1, /* [out, in], as nn.Linear stores it */
  SINTER_LAYOUT_IO = 2  /* [in, out] */
};

/* How the filter of a convolution lies in memory. 0 means SINTER_FILTER_OHWI. */
typedef int32_t sinter_filter;
enum {
  SINTER_FILTER_OHWI = 1, /* [out, height, width, in], as PyTorch's channels_last stores it */
  SINTER_FILTER_HWIO = 2  /* [height, width, in, out] */
};

/* How a checkpoint has codes of four bits of a matrix [n, k]. */
typedef int32_t sinter_checkpoint;
enum {
  SINTER_CHECKPOINT_ROWS = 1,    /* bytes of rows as dequantize_u4 reads them: also of mxfp4 */
  SINTER_CHECKPOINT_AWQ = 2,     /* words along n, in the order 0 2 4 6 1 3 5 7 */
  SINTER_CHECKPOINT_GPTQ = 3,    /* words along k; a zero is stored less one, modulo 16 */
  SINTER_CHECKPOINT_GPTQ_V2 = 4, /* words along k; a zero is stored as it is */
  SINTER_CHECKPOINT_COMPRESSED_TENSORS = 5 /* bytes of rows; words of zeros along n */
};

/* A choice that may be left to the environment. */
typedef int32_t sinter_switch;
enum { SINTER_SWITCH_DEFAULT = 0, SINTER_SWITCH_ON = 1, SINTER_SWITCH_OFF = 2 };

/* What a context logs. */
typedef int32_t sinter_log_level;
enum {
  SINTER_LOG_DEFAULT = 0, /* SINTER_LOG, else warn */
  SINTER_LOG_ERROR = 1,
  SINTER_LOG_WARN = 2,
  SINTER_LOG_INFO = 3,
  SINTER_LOG_DEBUG = 4,
  SINTER_LOG_OFF = 5
};

/* A value of a chain: the result of one add. 1 or more, growing from add to add; valid in its own
 * chain only. */
typedef int32_t sinter_value;
#define SINTER_NO_VALUE 0 /* an operand that is absent */

#define SINTER_MAX_RANK 6
/* As an extent: the symbol M (tokens, rows), known at launch. As a slice's limit: all of it. */
#define SINTER_DIM_M (-1)

/* `message` is borrowed for the call and NUL-terminated, one line. */
typedef void (*sinter_log_callback)(uintptr_t user_data, sinter_log_level level,
                                    const char* message);
/* `stage` is borrowed, one short line; `fraction` is of the whole call, 0 to 1. */
typedef void (*sinter_progress_callback)(uintptr_t user_data, const char* stage, double fraction);

#ifdef __cplusplus
}
#endif

#endif /* SINTER_SINTER_TYPES_H_ */
