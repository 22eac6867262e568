package predict

import (
	"fmt"
	"strings"

	"rankd/frontend/wire/kservepb"
	"rankd/model"
)

// Schema is what a model takes.
type Schema struct {
	Tables []Table
	Dense  []Dense
}

// Table is a table's input.
type Table struct {
	Name string
	Hot  int   // ids a row; 0: ragged
	Rows int64 // 0: not known
}

// Dense is a dense input.
type Dense struct {
	Name  string
	Width int
}

// SchemaOf takes the schema from a manifest.
func SchemaOf(m *model.Manifest) *Schema {
	s := &Schema{}
	for i := range m.Tables {
		s.Tables = append(s.Tables, Table{Name: m.Tables[i].Name, Hot: m.Tables[i].Hotness, Rows: m.Tables[i].Rows})
	}
	for i := range m.Dense {
		s.Dense = append(s.Dense, Dense{Name: m.Dense[i].Name, Width: m.Dense[i].Width})
	}
	return s
}

// SchemaFromServer takes the schema from a server's description of the model, which does not say how many rows a table has.
func SchemaFromServer(md *kservepb.ModelMetadataResponse) (*Schema, error) {
	s := &Schema{}
	for _, in := range md.GetInputs() {
		name, shape := in.GetName(), in.GetShape()
		switch {
		case strings.HasSuffix(name, ".lengths"):
		case strings.HasSuffix(name, ".values"):
			s.Tables = append(s.Tables, Table{Name: strings.TrimSuffix(name, ".values")})
		case len(shape) != 2 || shape[1] < 1:
			return nil, fmt.Errorf("read description of input %q: got shape %v, want [-1, width]", name, shape)
		case in.GetDatatype() == "INT64" || in.GetDatatype() == "INT32":
			s.Tables = append(s.Tables, Table{Name: name, Hot: int(shape[1])})
		default:
			s.Dense = append(s.Dense, Dense{Name: name, Width: int(shape[1])})
		}
	}
	return s, nil
}
