package sinter

/*
#include "shim.h"
*/
import "C"

import "math"

// M is the number of rows, known at launch, as an extent; as a slice's limit on that axis all of it.
const M int64 = C.SINTER_DIM_M

// NoM is what a launch of a chain without M takes for m.
const NoM int64 = math.MinInt64

// Status is the result of a call; 1 to 16 are the canonical codes of gRPC. Numbers of a newer library are values too.
type Status int32

func (s Status) String() string { return C.GoString(C.sinter_status_name(C.sinter_status(s))) }

const (
	OK                 Status = C.SINTER_OK
	Cancelled          Status = C.SINTER_CANCELLED
	Unknown            Status = C.SINTER_UNKNOWN
	InvalidArgument    Status = C.SINTER_INVALID_ARGUMENT
	DeadlineExceeded   Status = C.SINTER_DEADLINE_EXCEEDED
	NotFound           Status = C.SINTER_NOT_FOUND
	AlreadyExists      Status = C.SINTER_ALREADY_EXISTS
	PermissionDenied   Status = C.SINTER_PERMISSION_DENIED
	ResourceExhausted  Status = C.SINTER_RESOURCE_EXHAUSTED
	FailedPrecondition Status = C.SINTER_FAILED_PRECONDITION
	Aborted            Status = C.SINTER_ABORTED
	OutOfRange         Status = C.SINTER_OUT_OF_RANGE
	Unimplemented      Status = C.SINTER_UNIMPLEMENTED
	Internal           Status = C.SINTER_INTERNAL
	Unavailable        Status = C.SINTER_UNAVAILABLE
	DataLoss           Status = C.SINTER_DATA_LOSS
	Unauthenticated    Status = C.SINTER_UNAUTHENTICATED
	CompileFailed      Status = C.SINTER_ERROR_COMPILE_FAILED
	NoLegalPlan        Status = C.SINTER_ERROR_NO_LEGAL_PLAN
	Driver             Status = C.SINTER_ERROR_DRIVER
	CacheCorrupt       Status = C.SINTER_ERROR_CACHE_CORRUPT
	StreamCapturing    Status = C.SINTER_ERROR_STREAM_CAPTURING
	CacheMiss          Status = C.SINTER_ERROR_CACHE_MISS
)

// DType is an element type. f32 accumulation everywhere; only a cast rounds.
type DType int32

const (
	F32  DType = C.SINTER_DTYPE_F32
	F16  DType = C.SINTER_DTYPE_F16
	BF16 DType = C.SINTER_DTYPE_BF16
	S32  DType = C.SINTER_DTYPE_S32
	Pred DType = C.SINTER_DTYPE_PRED
	E4M3 DType = C.SINTER_DTYPE_E4M3
	S8   DType = C.SINTER_DTYPE_S8
)

// Granularity is what shares one value of a scale. 0 is ScaleRow.
type Granularity int32

const (
	ScaleTensor Granularity = C.SINTER_SCALE_TENSOR
	ScaleRow    Granularity = C.SINTER_SCALE_ROW
	ScaleGroup  Granularity = C.SINTER_SCALE_GROUP  // 128 of a row
	ScaleStatic Granularity = C.SINTER_SCALE_STATIC // the tensor, by a scale that is given
)

// Unary is a function of one operand.
type Unary int32

const (
	UnaryNeg        Unary = C.SINTER_UNARY_NEG
	UnaryAbs        Unary = C.SINTER_UNARY_ABS
	UnaryExp        Unary = C.SINTER_UNARY_EXP
	UnaryLog        Unary = C.SINTER_UNARY_LOG
	UnarySqrt       Unary = C.SINTER_UNARY_SQRT
	UnaryRsqrt      Unary = C.SINTER_UNARY_RSQRT
	UnaryTanh       Unary = C.SINTER_UNARY_TANH
	UnaryErf        Unary = C.SINTER_UNARY_ERF
	UnarySigmoid    Unary = C.SINTER_UNARY_SIGMOID
	UnaryReLU       Unary = C.SINTER_UNARY_RELU
	UnaryReciprocal Unary = C.SINTER_UNARY_RECIPROCAL
	UnarySquare     Unary = C.SINTER_UNARY_SQUARE
	UnarySin        Unary = C.SINTER_UNARY_SIN
	UnaryCos        Unary = C.SINTER_UNARY_COS
	UnaryFloor      Unary = C.SINTER_UNARY_FLOOR
	UnaryNot        Unary = C.SINTER_UNARY_NOT
	UnaryCeilPow2   Unary = C.SINTER_UNARY_CEIL_POW2
	UnaryLog1p      Unary = C.SINTER_UNARY_LOG1P
	UnaryExpm1      Unary = C.SINTER_UNARY_EXPM1
	UnaryCeil       Unary = C.SINTER_UNARY_CEIL
	UnaryRound      Unary = C.SINTER_UNARY_ROUND // half to even
)

// Binary is a function of two operands.
type Binary int32

const (
	BinaryAdd Binary = C.SINTER_BINARY_ADD
	BinarySub Binary = C.SINTER_BINARY_SUB
	BinaryMul Binary = C.SINTER_BINARY_MUL
	BinaryDiv Binary = C.SINTER_BINARY_DIV
	BinaryMax Binary = C.SINTER_BINARY_MAX
	BinaryMin Binary = C.SINTER_BINARY_MIN
	BinaryPow Binary = C.SINTER_BINARY_POW
	BinaryAnd Binary = C.SINTER_BINARY_AND
	BinaryOr  Binary = C.SINTER_BINARY_OR
)

// Comparison gives Pred.
type Comparison int32

const (
	CompareEq Comparison = C.SINTER_COMPARE_EQ
	CompareNe Comparison = C.SINTER_COMPARE_NE
	CompareLt Comparison = C.SINTER_COMPARE_LT
	CompareLe Comparison = C.SINTER_COMPARE_LE
	CompareGt Comparison = C.SINTER_COMPARE_GT
	CompareGe Comparison = C.SINTER_COMPARE_GE
)

// Reduction is over axes.
type Reduction int32

const (
	ReduceSum  Reduction = C.SINTER_REDUCE_SUM
	ReduceMax  Reduction = C.SINTER_REDUCE_MAX
	ReduceMin  Reduction = C.SINTER_REDUCE_MIN
	ReduceMean Reduction = C.SINTER_REDUCE_MEAN
)

// Activation of a product, or alone.
type Activation int32

const (
	Identity Activation = C.SINTER_ACTIVATION_IDENTITY
	ReLU     Activation = C.SINTER_ACTIVATION_RELU
	GELUTanh Activation = C.SINTER_ACTIVATION_GELU_TANH
	GELUErf  Activation = C.SINTER_ACTIVATION_GELU_ERF
	SiLU     Activation = C.SINTER_ACTIVATION_SILU
)

// Layout is how a weight lies in memory: OI is [out, in], as nn.Linear stores it, and the default.
type Layout int32

const (
	OI Layout = C.SINTER_LAYOUT_OI
	IO Layout = C.SINTER_LAYOUT_IO
)

// Filter is how the filter of a convolution lies in memory: OHWI is [out, height, width, in], as
// PyTorch's channels_last stores it, and the default.
type Filter int32

const (
	OHWI Filter = C.SINTER_FILTER_OHWI
	HWIO Filter = C.SINTER_FILTER_HWIO
)

// Choice is which plan a prepare chooses; all but the best are for measuring.
type Choice int32

const (
	ChoiceBest    Choice = C.SINTER_CHOICE_BEST
	ChoiceFused   Choice = C.SINTER_CHOICE_FUSED
	ChoiceUnfused Choice = C.SINTER_CHOICE_UNFUSED
)

// Switch is a choice that may be left to the environment.
type Switch int32

const (
	SwitchDefault Switch = C.SINTER_SWITCH_DEFAULT
	SwitchOn      Switch = C.SINTER_SWITCH_ON
	SwitchOff     Switch = C.SINTER_SWITCH_OFF
)

// LogLevel is what a context logs.
type LogLevel int32

const (
	LogDefault LogLevel = C.SINTER_LOG_DEFAULT
	LogError   LogLevel = C.SINTER_LOG_ERROR
	LogWarn    LogLevel = C.SINTER_LOG_WARN
	LogInfo    LogLevel = C.SINTER_LOG_INFO
	LogDebug   LogLevel = C.SINTER_LOG_DEBUG
	LogOff     LogLevel = C.SINTER_LOG_OFF
)

// LaunchPDL lets the first kernel start before the kernel ahead on the stream has ended.
const LaunchPDL uint32 = C.SINTER_LAUNCH_PDL

// GraphPDL is LaunchPDL behind those dependencies of Binding.AddToGraph that are kernels.
const GraphPDL uint32 = C.SINTER_GRAPH_PDL
