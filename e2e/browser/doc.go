// Package browser looks at the status page of a real server with a real browser, headless Chromium.
//
// # Nouns
//
//   - browser: a Chromium of its own for the test, with an empty profile, driven over its debugging protocol.
//
// # Invariants
//
//	I1  The browser talks to the server under test only; any other request fails the test.
//
// # Layout
//
// page_test.go is all. Pictures of the page go to the directory RANKD_PICTURES, if that is set: "make page" keeps them in .build/page.
//
// # Failure
//
// Without Chromium or the binary (RANKD_BIN) the test is skipped with the command that installs it, or fails where
// RANKD_REQUIRE_BROWSER is set.
package browser
