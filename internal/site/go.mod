module github.com/goroce/goroce/internal/site

go 1.26.0

require (
	github.com/goroce/goroce v0.0.0
	github.com/yuin/goldmark v1.7.13
)

require (
	github.com/HdrHistogram/hdrhistogram-go v1.4.0 // indirect
	github.com/chromedp/cdproto v0.159.0 // indirect
	github.com/go-json-experiment/json v0.0.0-20260213210345-44df1a37e875 // indirect
	go.yaml.in/yaml/v3 v3.0.5 // indirect
	golang.org/x/sys v0.49.0 // indirect
)

replace github.com/goroce/goroce => ../..

require (
	github.com/chromedp/chromedp v0.23.0
	github.com/stretchr/testify v1.12.1
)
