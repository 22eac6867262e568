package wire

// What ModelMetadata calls the platform. Scores of PlatformSimulated are not the model's.
const (
	Platform          = "rankd"
	PlatformSimulated = "rankd_simulated"
)
