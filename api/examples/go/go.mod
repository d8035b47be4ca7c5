module lunch

go 1.19
