"""Operations on whole Delta tables."""
