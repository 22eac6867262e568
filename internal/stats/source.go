package stats

// Source is where the program of a compiled batch size came from.
type Source uint32

// The sources. A batch size that is not ready, or whose device has no programs, has none.
const (
	SourceNone     Source = iota
	SourceCompiler        // compiled at this start
	SourceCache           // compiled at an earlier start of this machine's
	SourceBundle          // compiled ahead of time: it came with the model
	sourceCount
)

var sourceNames = [sourceCount]string{"", "compiler", "cache", "bundle"}

// String returns the name in logs, metrics and status, or "" for a value that is none.
func (s Source) String() string {
	if s >= sourceCount {
		return ""
	}
	return sourceNames[s]
}

// Program is a compiled batch size and where it came from.
type Program struct {
	Rows   int
	Source Source
}

// SetSource says where the program of the batch size in place i came from.
func (b *Block) SetSource(i int, s Source) { b.bucketSources[i].Store(uint32(s)) }

// Programs lists the compiled batch sizes with a source, in the order of their places.
func (b *Block) Programs() (list []Program) {
	for i := range b.bucketRows {
		rows, source := b.bucketRows[i].Load(), Source(b.bucketSources[i].Load())
		if rows != 0 && source.String() != "" {
			list = append(list, Program{int(rows), source})
		}
	}
	return list
}
