# train.R DATA EPOCHS: multinomial regression by gradient descent. Saves out/state.rds after each epoch, and continues from it.
given <- commandArgs(trailingOnly = TRUE)
epochs <- as.integer(given[2])
read <- function(name, header, count) {
  file <- gzfile(file.path(given[1], name), "rb")
  on.exit(close(file))
  readBin(file, "raw", header)
  readBin(file, "integer", count, size = 1, signed = FALSE)
}
x <- cbind(1, matrix(read("train-images-idx3-ubyte.gz", 16, 784 * 6000), ncol = 784, byrow = TRUE) / 255)
y <- diag(10)[read("train-labels-idx1-ubyte.gz", 8, 6000) + 1, ]

dir.create("out", showWarnings = FALSE)
state <- list(epoch = 0, weights = matrix(0, 785, 10))
if (file.exists("out/state.rds")) state <- readRDS("out/state.rds")
while (state$epoch < epochs) {
  scores <- exp(x %*% state$weights)
  p <- scores / rowSums(scores)
  state$weights <- state$weights - 0.1 * crossprod(x, p - y) / nrow(x)
  state$epoch <- state$epoch + 1
  cat(sprintf("epoch %d: loss %.3f\n", state$epoch, -mean(log(rowSums(p * y)))))
  saveRDS(state, "out/new.rds")
  invisible(file.rename("out/new.rds", "out/state.rds"))
}
saveRDS(state$weights, "model.rds")
