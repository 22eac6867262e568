package model

// Names of the files that every bundle has, and of tensors in them.
const (
	ManifestFile = "manifest.json"
	GoldenFile   = "golden/golden.safetensors"

	// ExecutablesDir may hold compiled programs, see package execache. They are added to a complete bundle, so the manifest does
	// not know them: they have a list of their own.
	ExecutablesDir = "executables"

	// ExpectPrefix precedes an output's name in the golden file: float32 [N] or [N, k].
	ExpectPrefix = "expect."

	// PackedIDs is the input that carries the ids of all tables, [B, sum of hotness], where every table has a fixed hotness.
	PackedIDs = "ids"
)

// Combiners: how the rows of a bag become one vector. With per-id weights w each row is multiplied by its weight.
// An empty bag and a divisor of zero give zeros.
const (
	CombinerSum   = "sum"   // sum of rows
	CombinerMean  = "mean"  // sum / count, or / sum of weights
	CombinerSqrtN = "sqrtn" // sum / sqrt(count), or / sqrt(sum of squared weights)
)

// Policies for ids outside [0, Rows). An id that clamp, zero or hash-mod has mapped still counts in its bag's length (mean,
// sqrtn) and keeps its weight.
const (
	PolicyReject  = "reject"   // the request is refused
	PolicyClamp   = "clamp"    // the nearest valid id is read
	PolicyZero    = "zero"     // a row of zeros is read
	PolicyHashMod = "hash-mod" // ids are hashes: the remainder of id / Rows in [0, Rows) is read, as Python's % gives it
)

// Combiners lists the combiners.
func Combiners() []string { return []string{CombinerSum, CombinerMean, CombinerSqrtN} }

// IDPolicies lists the policies for ids outside a table.
func IDPolicies() []string {
	return []string{PolicyReject, PolicyClamp, PolicyZero, PolicyHashMod}
}
